# shellcheck shell=bash
# Firecracker, with Debian's kernel and busybox, on the device that tc-redirect-tap makes behind ptp and firewall. cnitool calls the
# plugins as Firecracker's library does: DEL before ADD.

export NETCONFPATH=/etc/cni/net.d CNI_PATH=/opt/cni/bin

guests_conflist() {
    cat <<'END'
{"cniVersion": "1.0.0", "name": "guests", "plugins": [
  {"type": "ptp", "ipMasq": true, "ipam": {"type": "host-local", "subnet": "10.94.0.0/24", "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "firewall"},
  {"type": "tc-redirect-tap"}]}
END
}

# guest_config RESULT: what the library takes from the result of ADD.
guest_config() {
    python3 - "$1" <<'END'
import ipaddress, json, sys
result = json.load(open(sys.argv[1]))
entries = result["interfaces"]
index = next(i for i, one in enumerate(entries) if one.get("sandbox") and "/" not in one["sandbox"])
ip = next(ip for ip in result["ips"] if ip.get("interface") == index)
address = ipaddress.ip_interface(ip["address"])
boot = f"console=ttyS0 quiet panic=-1 ip={address.ip}::{ip['gateway']}:{address.netmask}::eth0:off reach=192.0.2.2 says=hello.from.a.guest"
print(json.dumps({
    "boot-source": {"kernel_image_path": "/stage/guest/vmlinux", "initrd_path": "/stage/guest/initramfs", "boot_args": boot},
    "drives": [],
    "machine-config": {"vcpu_count": 1, "mem_size_mib": 128},
    "network-interfaces": [{"iface_id": "eth0", "guest_mac": entries[index]["mac"], "host_dev_name": entries[index]["name"]}],
}))
END
}

# The address that the machine has, from the command line that it was booted with.
guest_address() { sed -n 's/.* ip=\([0-9.]*\)::.*/\1/p' /tmp/machine.json; }

serves() { "$BUSYBOX" timeout 3 "$BUSYBOX" wget -q -O - "http://$1/" 2>/dev/null | grep -q hello.from.a.guest; }

show_firecracker() {
    local monitor
    printf 'version: %s\n' "$(firecracker --version | head -n 1)"
    guests_conflist >/etc/cni/net.d/guests.conflist
    ip netns add vm1
    expect "del before add" cnitool del guests /run/netns/vm1
    cnitool add guests /run/netns/vm1 >/dev/null
    cnitool del guests /run/netns/vm1
    remember
    CNI_IFNAME=eth0 cnitool add guests /run/netns/vm1 >/tmp/result.json || wrong "add: $(cat /tmp/result.json)"
    guest_config /tmp/result.json >/tmp/machine.json
    ip netns exec outside "$BUSYBOX" nc -ll -p 7 -e /bin/echo answered &
    ip netns exec vm1 firecracker --no-api --config-file /tmp/machine.json </dev/null >/tmp/console 2>&1 &
    monitor=$!
    if ! until_true 300 grep -q '^ready' /tmp/console; then
        printf 'not run: a virtual machine does not boot here: %s\n' "$(tail -n 1 /tmp/console)"
        exit 3
    fi
    shown "a virtual machine boots with the address of the result"
    expect "it reaches a host outside" grep -q 'reached 192.0.2.2: answered' /tmp/console
    until_true 50 serves "$(guest_address)" || wrong "the host does not reach the virtual machine"
    shown "the host reaches it"
    expect "check" cnitool check guests /run/netns/vm1
    kill -KILL "$monitor"
    expect "del after the machine was killed" cnitool del guests /run/netns/vm1
    expect "del twice" cnitool del guests /run/netns/vm1
    expect_as_before "deleted"
}
