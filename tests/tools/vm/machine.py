"""A virtual machine that can lose its power: QEMU without KVM, a temporary root disk, a persistent data disk.

Output of the guest goes to files, which survive when the machine is killed: `console`, and one file for each named port
(/run/ports/NAME in the guest).
"""

import os
import subprocess
import time


def qcow2(path, size=None, base=None):
    command = ["qemu-img", "create", "-q", "-f", "qcow2"]
    if base:
        command += ["-b", os.path.abspath(base), "-F", "qcow2"]
    subprocess.run(command + [path] + ([size] if size else []), check=True)


def empty_disk(path, size="512M"):
    """A qcow2 disk with an empty ext4 on it."""
    raw = path + ".raw"
    with open(raw, "wb") as file:
        file.truncate(int(size.rstrip("M")) << 20)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", raw], check=True)
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", raw, path], check=True)
    os.remove(raw)


class Machine:
    """One boot of the machine. `image` is the output folder of tests/tools/vm/image, `work` a folder for this boot."""

    def __init__(self, image, work, share, scenario, ports, data=None, memory_mib=1024):
        os.makedirs(work, exist_ok=True)
        self.work, self.ports = work, ports
        root = os.path.join(work, "root.qcow2")
        qcow2(root, base=os.path.join(image, "base.qcow2"))
        for name in ["console", *ports]:
            open(self.file(name), "w").close()
        # no_timer_check: on a busy host the kernel would consider the emulated timer broken.
        command = [
            "nice", "-n", "10", "qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max",
            "-smp", "2", "-m", str(memory_mib), "-nodefaults", "-display", "none", "-no-reboot",
            "-kernel", os.path.join(image, "vmlinuz"), "-initrd", os.path.join(image, "initrd.gz"),
            "-append", f"console=ttyS0 quiet panic=-1 no_timer_check scenario={scenario}",
            "-chardev", f"file,id=console,path={self.file('console')}", "-serial", "chardev:console",
            "-drive", f"if=none,id=d0,file={root},format=qcow2,cache=unsafe", "-device", "virtio-blk-pci,drive=d0",
            "-fsdev", f"local,id=f0,path={share},security_model=none,readonly=on",
            "-device", "virtio-9p-pci,fsdev=f0,mount_tag=host",
            "-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,romfile=",
            "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
        ]
        for port in ports:
            command += ["-chardev", f"file,id={port},path={self.file(port)}", "-device", f"virtserialport,chardev={port},name={port}"]
        if data:
            # The host's page cache acts as the drive: data that the guest has not sent to its disk is lost with its memory.
            command += ["-drive", f"if=none,id=d1,file={data},format=qcow2,cache=writeback", "-device", "virtio-blk-pci,drive=d1"]
        self.log = open(os.path.join(work, "qemu.log"), "w")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def file(self, name):
        return os.path.join(self.work, name + ".txt")

    def lines(self, name):
        """Complete lines so far; an incomplete one does not count."""
        with open(self.file(name), "rb") as file:
            text = file.read().decode("utf-8", "replace")
        return [line.rstrip("\r") for line in text.split("\n")[:-1]]

    def wait(self, done, timeout_s, what):
        """Waits until `done()` returns a true value, and returns it."""
        until = time.monotonic() + timeout_s
        while True:
            answer = done()
            if answer:
                return answer
            if self.process.poll() is not None:
                raise RuntimeError(f"the machine ended while waiting for {what}: {open(self.log.name).read()}")
            if time.monotonic() > until:
                tail = "\n".join(self.lines("console")[-40:])
                raise RuntimeError(f"timed out after {timeout_s} s waiting for {what}; end of the console:\n{tail}")
            time.sleep(0.1)

    def cut(self):
        """Cuts the power."""
        self.process.kill()
        self.process.wait()
        self.log.close()
