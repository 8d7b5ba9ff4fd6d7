//! Chaos on a real mount, for a few seconds.

use std::path::Path;
use std::process::Command;

/// A seed whose first faults are of many kinds.
const SEED: &str = "1";

/// Why chaos cannot be run here.
fn obstacle(weft: &Path) -> Option<String> {
    if !Path::new("/dev/fuse").exists() {
        return Some("/dev/fuse is missing: load the kernel module (modprobe fuse)".into());
    }
    if !rustix::process::geteuid().is_root() {
        return Some("chaos mounts file systems: run the test as root".into());
    }
    (!weft.exists()).then(|| format!("{} is missing: build it with `cargo build -p weft`", weft.display()))
}

#[test]
fn a_mount_keeps_its_promises_while_faults_strike() {
    promises_are_kept(&["--minutes", "0.25"], 3);
}

/// Names for which programs of all mounts contend, too.
#[test]
fn several_mounts_keep_their_promises_while_faults_strike() {
    promises_are_kept(&["--minutes", "0.1", "--mounts", "3"], 1);
}

fn promises_are_kept(arguments: &[&str], faults_min: usize) {
    let chaos = Path::new(env!("CARGO_BIN_EXE_weft-sim"));
    if let Some(obstacle) = obstacle(&chaos.with_file_name("weft")) {
        assert!(std::env::var_os("CI").is_none(), "{obstacle}");
        println!("not tested: {obstacle}");
        return;
    }
    let output =
        Command::new(chaos).args(["chaos", "--seed", SEED, "--verbose"]).args(arguments).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let summary = said.lines().last().unwrap_or_default();
    println!("{summary}");
    assert!(summary.ends_with(" 0 complaints"), "{summary}");
    assert!(said.lines().filter(|line| line.contains(" fault: ")).count() >= faults_min, "{said}");
}
