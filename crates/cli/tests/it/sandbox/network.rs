//! Machines on a switch, as network namespaces: cables that can be pulled and lines of a given rate.

use super::Sandbox;
use std::process::{Command, Output};

/// Machines that reach one another at `10.0.0.NUMBER`, and nothing else. Gone when dropped.
pub struct Network {
    name: String,
    machines: Vec<String>,
}

impl Network {
    /// Machine 0 and so many others.
    pub fn of(others: usize) -> Self {
        let name = format!("weft{}", std::process::id());
        let mut network = Self { name: name.clone(), machines: Vec::new() };
        network.ip(&["netns", "add", &name]);
        network.ip(&["-n", &name, "link", "add", "switch", "type", "bridge"]);
        network.ip(&["-n", &name, "link", "set", "switch", "up"]);
        for number in 0..=others {
            let machine = format!("{name}-{number}");
            network.ip(&["netns", "add", &machine]);
            network.machines.push(machine.clone());
            let port = port(number, 0);
            network.ip(&["-n", &name, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &machine]);
            network.ip(&["-n", &name, "link", "set", &port, "master", "switch", "up"]);
            network.ip(&["-n", &machine, "addr", "add", &format!("{}/24", Self::address(number)), "dev", "eth0"]);
            network.ip(&["-n", &machine, "link", "set", "eth0", "up"]);
            network.ip(&["-n", &machine, "link", "set", "lo", "up"]);
        }
        network
    }

    /// The same with a second cable to each machine, from a switch of its own: `10.1.0.NUMBER`.
    pub fn with_second_cables(self) -> Self {
        self.ip(&["-n", &self.name, "link", "add", "switch1", "type", "bridge"]);
        self.ip(&["-n", &self.name, "link", "set", "switch1", "up"]);
        for (number, machine) in self.machines.iter().enumerate() {
            let port = port(number, 1);
            self.ip(&[
                "-n", &self.name, "link", "add", &port, "type", "veth", "peer", "name", "eth1", "netns", machine,
            ]);
            self.ip(&["-n", &self.name, "link", "set", &port, "master", "switch1", "up"]);
            self.ip(&["-n", machine, "addr", "add", &format!("{}/24", Self::address_of(number, 1)), "dev", "eth1"]);
            self.ip(&["-n", machine, "link", "set", "eth1", "up"]);
        }
        self
    }

    pub fn address(machine: usize) -> String {
        Self::address_of(machine, 0)
    }

    /// The machine's address at cable 0 or 1.
    pub fn address_of(machine: usize, cable: usize) -> String {
        format!("10.{cable}.0.{}", machine + 1)
    }

    /// `weft` on a machine. Its files are those of all others.
    pub fn weft(&self, sandbox: &Sandbox, machine: usize, arguments: &[&str]) -> Command {
        let weft = sandbox.command(arguments);
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.machines[machine]));
        command.arg(weft.get_program()).args(weft.get_args());
        command.current_dir(weft.get_current_dir().expect("the sandbox's folder"));
        command
    }

    /// Pulls machines' cables at the switch: nobody is told, packets do not arrive any more.
    pub fn pull(&self, machines: &[usize]) {
        self.set_ports(machines, "down");
    }

    pub fn plug(&self, machines: &[usize]) {
        self.set_ports(machines, "up");
    }

    fn set_ports(&self, machines: &[usize], state: &str) {
        for machine in machines {
            self.ip(&["-n", &self.name, "link", "set", &port(*machine, 0), state]);
        }
    }

    /// Pulls one cable of a machine at the switch, or plugs it in: as [`Self::pull`].
    pub fn set_cable(&self, machine: usize, cable: usize, is_in: bool) {
        let state = if is_in { "up" } else { "down" };
        self.ip(&["-n", &self.name, "link", "set", &port(machine, cable), state]);
    }

    /// Pulls one cable of a machine at the machine, or plugs it in: its programs are told that there is no way.
    pub fn set_device(&self, machine: usize, cable: usize, is_in: bool) {
        let state = if is_in { "up" } else { "down" };
        self.ip(&["-n", &self.machines[machine], "link", "set", &format!("eth{cable}"), state]);
    }

    /// Bytes that the machine has sent and received by a cable.
    pub fn moved_bytes(&self, machine: usize, cable: usize) -> u64 {
        let count = |what: &str| {
            let file = format!("/sys/class/net/eth{cable}/statistics/{what}_bytes");
            let output = Command::new("ip").args(["netns", "exec", &self.machines[machine], "cat", &file]).output();
            let text = String::from_utf8(output.expect("ip runs").stdout).expect("digits");
            text.trim().parse::<u64>().unwrap_or_else(|_| panic!("{file}: `{text}`"))
        };
        count("tx") + count("rx")
    }

    /// Both directions of a machine's cable go at this many bytes a second, with short queues.
    pub fn limit_cable(&self, machine: usize, cable: usize, bytes_per_second: u64) {
        self.shape(&self.machines[machine], &format!("eth{cable}"), bytes_per_second, "50ms");
        self.shape(&self.name, &port(machine, cable), bytes_per_second, "50ms");
    }

    /// From now on what the machine sends goes at so many bytes a second.
    pub fn limit(&self, machine: usize, bytes_per_second: u64) {
        self.shape(&self.machines[machine], "eth0", bytes_per_second, "400ms");
    }

    /// From now on what the machine receives comes at so many bytes a second.
    pub fn limit_towards(&self, machine: usize, bytes_per_second: u64) {
        self.shape(&self.name, &port(machine, 0), bytes_per_second, "400ms");
    }

    fn shape(&self, namespace: &str, device: &str, bytes_per_second: u64, queue: &str) {
        let rate = format!("{}bit", bytes_per_second * 8);
        let discipline = ["netns", "exec", namespace, "tc", "qdisc", "replace", "dev", device, "root"];
        self.ip(&[&discipline[..], &["tbf", "rate", &rate, "burst", "32kb", "latency", queue]].concat());
    }

    fn ip(&self, arguments: &[&str]) {
        let Output { status, stderr, .. } =
            Command::new("ip").args(arguments).output().expect("this test needs the program `ip`: install iproute2");
        let said = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "this test needs root and network namespaces: ip {arguments:?}: {said}");
    }
}

/// The switch's end of a machine's cable.
fn port(machine: usize, cable: usize) -> String {
    let switch = if cable == 0 { String::new() } else { format!("{cable}-") };
    format!("port{switch}{machine}")
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in self.machines.iter().chain([&self.name]) {
            let _ = Command::new("ip").args(["netns", "delete", namespace]).output();
        }
    }
}
