"""Machines for experiments: network namespaces at one switch, or at switches of their own that hang on it."""

import contextlib, os, pathlib, shutil, signal, subprocess, sys, tempfile, time

# Columns of /proc/net/dev.
RECEIVED, SENT = 0, 8
DEADLINE_S = 900


def weft():
    """The program: WEFT, or one that is built now."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        sys.exit("this experiment needs root, and ip: apt-get install iproute2")
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    if os.environ.get("WEFT"):
        return os.environ["WEFT"]
    subprocess.run(["cargo", "build", "--release", "--locked"], check=True)
    return str(pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target"), "release/weft").resolve())


def wait(what, is_so, pause_s=0.2):
    """Seconds until it is so."""
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > DEADLINE_S:
            raise TimeoutError(f"after {DEADLINE_S} s not yet: {what}")
        time.sleep(pause_s)
    return time.monotonic() - began


class Machines:
    """All of one experiment, and a folder for their disks in memory."""

    def __init__(self, name):
        self.name = f"weft{name}{os.getpid()}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"weft-{name}.", dir="/dev/shm"))
        self.ip("netns", "add", self.name)
        self.switch("switch")

    def ip(self, *arguments):
        subprocess.run(["ip", *map(str, arguments)], check=True)

    def switch(self, switch, uplink=None):
        """Another switch; with an uplink it hangs on the first one by a cable, `<switch>-up`, that can be pulled."""
        self.ip("-n", self.name, "link", "add", switch, "type", "bridge")
        self.ip("-n", self.name, "link", "set", switch, "up")
        if uplink:
            self.ip("-n", self.name, "link", "add", f"{switch}-up", "type", "veth", "peer", "name", f"{switch}-down")
            for end, where in [(f"{switch}-up", uplink), (f"{switch}-down", switch)]:
                self.ip("-n", self.name, "link", "set", end, "master", where, "up")

    def add(self, machine, address, switch="switch"):
        """A machine at a switch, by a cable `m<machine>`."""
        space = f"{self.name}-{machine}"
        self.ip("netns", "add", space)
        self.ip("-n", space, "link", "set", "lo", "up")
        self.ip("-n", self.name, "link", "add", f"m{machine}", "type", "veth", "peer", "name", "eth0", "netns", space)
        self.ip("-n", self.name, "link", "set", f"m{machine}", "master", switch, "up")
        self.ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
        self.ip("-n", space, "link", "set", "eth0", "up")

    def cable(self, cable, is_plugged):
        self.ip("-n", self.name, "link", "set", cable, "up" if is_plugged else "down")

    def on(self, machine, *command):
        """The command line that runs a command at a machine."""
        return ["nsenter", f"--net=/run/netns/{self.name}-{machine}", *map(str, command)]

    def bytes(self, machine, column):
        """Bytes that a machine has RECEIVED or SENT."""
        said = subprocess.run(self.on(machine, "cat", "/proc/net/dev"), check=True, capture_output=True, text=True).stdout
        return int(next(line for line in said.splitlines() if "eth0:" in line).split(":")[1].split()[column])

    def end(self):
        """Ends what runs at the machines, and removes them."""
        for log in sorted(self.folder.glob("log*")):
            if "panicked" in log.read_text(errors="replace"):
                print(f"{log.name} has a panic", file=sys.stderr)
        spaces = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout.split()
        for space in [space for space in spaces if space.startswith(self.name)]:
            for pid in subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True).stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            self.ip("netns", "del", space)
        shutil.rmtree(self.folder)
