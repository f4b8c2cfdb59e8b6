#!/usr/bin/env python3
"""The calls that kubelet makes of a container runtime, for a pod with one container.

  cri.py run NAME IMAGE [PORT:PORT] [RATE] -- COMMAND...   prints pod, container, and the path of the network namespace
  cri.py addresses POD                                     prints a line for each
  cri.py exec CONTAINER COMMAND...                         ends with the status of the command
  cri.py end POD                                           stops and removes it

PORT:PORT is a port of the host and one of the container, each "-" for none; RATE limits what the pod receives, such as 8M.
Needs grpcio, and cri_pb2, which protoc makes of cri.proto.
"""
import json
import sys
import uuid

import cri_pb2
import grpc

SOCKET = "unix:///run/containerd/containerd.sock"
PATIENCE = 120


class Runtime:
    """A container runtime behind a socket."""

    def __init__(self):
        self.channel = grpc.insecure_channel(SOCKET, options=[("grpc.default_authority", "localhost")])

    def call(self, name, **fields):
        """Makes one call, and returns the answer."""
        request, answer = getattr(cri_pb2, name + "Request"), getattr(cri_pb2, name + "Response")
        method = self.channel.unary_unary(
            f"/runtime.v1.RuntimeService/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=answer.FromString,
        )
        return method(request(**fields), timeout=PATIENCE)


def pod_config(name, ports, rate):
    """The configuration of a pod, as kubelet writes it."""
    config = cri_pb2.PodSandboxConfig(hostname=name, log_directory=f"/run/logs/{name}")
    config.metadata.CopyFrom(cri_pb2.PodSandboxMetadata(name=name, uid=str(uuid.uuid4()), namespace="default"))
    config.linux.SetInParent()
    if ports != "-":
        host, inside = ports.split(":")
        config.port_mappings.add(host_port=int(host), container_port=int(inside))
    if rate != "-":
        config.annotations["kubernetes.io/ingress-bandwidth"] = rate
    return config


def run(runtime, name, image, ports, rate, separator, *command):
    """Starts a pod and its container."""
    assert separator == "--", separator
    pod_of = pod_config(name, ports, rate)
    pod = runtime.call("RunPodSandbox", config=pod_of).pod_sandbox_id
    config = cri_pb2.ContainerConfig(command=command, log_path=f"{name}.log")
    config.metadata.name = name
    config.image.image = image
    config.linux.SetInParent()
    created = runtime.call("CreateContainer", pod_sandbox_id=pod, config=config, sandbox_config=pod_of)
    runtime.call("StartContainer", container_id=created.container_id)
    told = runtime.call("PodSandboxStatus", pod_sandbox_id=pod, verbose=True)
    namespaces = json.loads(told.info["info"])["runtimeSpec"]["linux"]["namespaces"]
    netns = next(one["path"] for one in namespaces if one["type"] == "network")
    print(pod, created.container_id, netns)


def addresses(runtime, pod):
    """Prints the addresses of a pod."""
    network = runtime.call("PodSandboxStatus", pod_sandbox_id=pod).status.network
    print("\n".join([network.ip] + [one.ip for one in network.additional_ips]))


def execute(runtime, container, *command):
    """Runs a command in a container."""
    done = runtime.call("ExecSync", container_id=container, cmd=command, timeout=PATIENCE)
    sys.stdout.buffer.write(done.stdout)
    sys.stderr.buffer.write(done.stderr)
    return done.exit_code


def end(runtime, pod):
    """Stops and removes a pod, as kubelet does."""
    runtime.call("StopPodSandbox", pod_sandbox_id=pod)
    runtime.call("RemovePodSandbox", pod_sandbox_id=pod)


def main(verb, *words):
    """Does what the command line asks for, and returns the exit status."""
    verbs = {"run": run, "addresses": addresses, "exec": execute, "end": end}
    try:
        return verbs[verb](Runtime(), *words) or 0
    except grpc.RpcError as error:
        print(f"{verb}: {error.code().name}: {error.details()}", file=sys.stderr)
        return 1


sys.exit(main(*sys.argv[1:]))
