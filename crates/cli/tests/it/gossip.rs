//! Daemons that find each other, really: processes on 127.0.0.1.

use crate::sandbox::served::Served;
use crate::sandbox::{Sandbox, any_port, until};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

fn start(sandbox: &Sandbox, number: usize, through: Option<&str>) -> Served {
    let folder = sandbox.path(&format!("served{number}"));
    fs::create_dir_all(&folder).expect("made");
    let key = sandbox.path("cluster-key");
    let domain = format!("rack{}/host{number}", number % 2);
    let listen = any_port();
    let mut arguments = vec!["node", "serve", &folder, "--listen", &listen, "--cluster-key", &key, "--domain", &domain];
    arguments.extend(through.into_iter().flat_map(|url| ["--join", url]));
    Served::of(sandbox.command(arguments))
}

/// What one daemon knows, as JSON; nothing while it cannot be asked.
fn list(sandbox: &Sandbox, from: &str) -> Vec<serde_json::Value> {
    let key = sandbox.path("cluster-key");
    let output =
        sandbox.command(["node", "list", "--from", from, "--cluster-key", &key, "--json"]).output().expect("run");
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn in_state(members: &[serde_json::Value], state: &str) -> Vec<String> {
    let address = |member: &serde_json::Value| member["address"].as_str().map(str::to_owned);
    members.iter().filter(|member| member["state"] == state).filter_map(address).collect()
}

#[test]
fn five_daemons_join_through_one_and_notice_who_is_killed_and_who_has_moved() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", "rs:3+2", "meta.db"]).ok();
    let mut daemons = vec![start(&sandbox, 0, None)];
    let first = daemons[0].url.clone();
    daemons.extend((1..5).map(|number| start(&sandbox, number, Some(&first))));
    for (number, daemon) in daemons.iter().enumerate() {
        sandbox.weft(["node", "add", "meta.db", &number.to_string(), &daemon.url]).ok();
    }
    // Each also says which node it is, with its next heartbeat.
    for daemon in &daemons {
        until("all know all", || {
            let members = list(&sandbox, &daemon.url);
            in_state(&members, "alive").len() == 5 && members.iter().all(|member| member["node"] != "")
        });
    }
    let listed = sandbox.weft(["node", "list", "--from", &first, "--cluster-key", &sandbox.path("cluster-key")]).ok();
    assert_eq!(listed.matches(" alive ").count(), 5, "{listed}");
    assert!(listed.contains("rack1/host3"), "{listed}");

    // One is killed. It is down for the others, who are not.
    let killed = daemons[3].url.clone();
    daemons[3].kill();
    for daemon in daemons.iter().filter(|daemon| daemon.url != killed) {
        until("it is dead, and nobody else is", || {
            let members = list(&sandbox, &daemon.url);
            in_state(&members, "dead") == [killed.as_str()] && in_state(&members, "alive").len() == 4
        });
    }

    // It is back on another port, through another daemon; it is the same node.
    let moved = start(&sandbox, 3, Some(&daemons[1].url));
    assert_ne!(moved.url, killed);
    let node_at = |members: &[serde_json::Value], address: &str| {
        members.iter().find(|member| member["address"] == address).map(|member| member["node"].clone())
    };
    let alive = [&first, &daemons[1].url, &daemons[2].url, &daemons[4].url];
    for daemon in alive {
        until("it is found where it is now", || {
            let members = list(&sandbox, daemon);
            let node = node_at(&members, &moved.url);
            node.is_some() && node == node_at(&members, &killed)
        });
    }

    // The volume's users find it there, whomever they ask, though metadata knows where it was only.
    let listed = sandbox.weft(["node", "list", "meta.db"]).ok();
    assert!(listed.contains(&killed) && !listed.contains("away"), "{listed}");

    // Somebody else's key is refused, and a daemon that is not there is an error with a sentence.
    let stranger = sandbox.path("stranger-key");
    fs::write(&stranger, "07".repeat(32)).expect("written");
    fs::set_permissions(&stranger, Permissions::from_mode(0o600)).expect("kept");
    for arguments in [vec!["--from", &first, "--cluster-key", &stranger], vec!["--from", &killed]] {
        let sentence = sandbox.weft(["node", "list"].into_iter().chain(arguments)).sentence();
        assert!(sentence.contains("no daemon answered"), "{sentence}");
    }
}
