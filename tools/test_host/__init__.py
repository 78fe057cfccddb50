"""A disposable Debian host with systemd and rootless Podman, booted by systemd-nspawn on this machine."""
