# shellcheck shell=bash
# Blocks of Nomad's configuration and jobs that several of these scripts use.

# cloud_fingerprints_off: the option of a client that asks no cloud about the machine.
cloud_fingerprints_off() {
    cat <<'OPTIONS'
  options = {
    "fingerprint.denylist" = "env_aws,env_azure,env_digitalocean,env_gce"
  }
OPTIONS
}

# raw_exec: the block of an agent that allows the driver.
raw_exec() {
    cat <<'PLUGIN'
plugin "raw_exec" {
  config {
    enabled = true
  }
}
PLUGIN
}

# web_task: the block of a task that serves the page of the containers.
web_task() {
    cat <<TASK
    task "web" {
      driver = "raw_exec"
      config {
        command = "$BUSYBOX"
        args    = ["httpd", "-f", "-p", "80", "-h", "/rootfs/www"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
TASK
}
