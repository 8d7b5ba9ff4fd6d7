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
            let port = format!("port{number}");
            network.ip(&["-n", &name, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &machine]);
            network.ip(&["-n", &name, "link", "set", &port, "master", "switch", "up"]);
            network.ip(&["-n", &machine, "addr", "add", &format!("{}/24", Self::address(number)), "dev", "eth0"]);
            network.ip(&["-n", &machine, "link", "set", "eth0", "up"]);
            network.ip(&["-n", &machine, "link", "set", "lo", "up"]);
        }
        network
    }

    pub fn address(machine: usize) -> String {
        format!("10.0.0.{}", machine + 1)
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
            self.ip(&["-n", &self.name, "link", "set", &format!("port{machine}"), state]);
        }
    }

    /// From now on what the machine sends goes at so many bytes a second.
    pub fn limit(&self, machine: usize, bytes_per_second: u64) {
        self.shape(&self.machines[machine], "eth0", bytes_per_second);
    }

    /// From now on what the machine receives comes at so many bytes a second.
    pub fn limit_towards(&self, machine: usize, bytes_per_second: u64) {
        self.shape(&self.name, &format!("port{machine}"), bytes_per_second);
    }

    fn shape(&self, namespace: &str, device: &str, bytes_per_second: u64) {
        let rate = format!("{}bit", bytes_per_second * 8);
        let queue = ["netns", "exec", namespace, "tc", "qdisc", "replace", "dev", device, "root"];
        self.ip(&[&queue[..], &["tbf", "rate", &rate, "burst", "32kb", "latency", "400ms"]].concat());
    }

    fn ip(&self, arguments: &[&str]) {
        let Output { status, stderr, .. } =
            Command::new("ip").args(arguments).output().expect("this test needs the program `ip`: install iproute2");
        let said = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "this test needs root and network namespaces: ip {arguments:?}: {said}");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in self.machines.iter().chain([&self.name]) {
            let _ = Command::new("ip").args(["netns", "delete", namespace]).output();
        }
    }
}
