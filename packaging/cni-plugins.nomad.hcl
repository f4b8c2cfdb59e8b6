# Installs the plugins on every Nomad client, and on clients that join later. Nomad looks for plugins when its agent starts: restart the
# agents afterwards. Tasks keep running meanwhile.
job "cni-plugins-rs" {
  type        = "sysbatch"
  datacenters = ["*"]

  group "install" {
    task "install" {
      driver = "docker"

      config {
        image        = "registry.example/cni-plugins-rs:0.1.0"
        args         = ["install", "/host/opt/cni/bin"]
        network_mode = "none"
        volumes      = ["/opt/cni/bin:/host/opt/cni/bin"]
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
