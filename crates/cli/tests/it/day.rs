//! A bad day of twelve machines in three racks: two volumes over them are mounted on a thirteenth and used all the time, while
//! machines die, a rack is cut off, one comes back empty, one is drained and two bigger ones come.
//!
//! `WEFT_DAY_SECONDS=60`: how long the rack is cut off, and the users' work goes on between (2), if their work does not take longer.

use crate::sandbox::caring::Caring;
use crate::sandbox::network::Network;
use crate::sandbox::served::Served;
use crate::sandbox::{Sandbox, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Which machines are chosen, and what users do.
const SEED: u64 = 20_261_121;

/// A node that is silent for so long is given up.
const GIVE_UP_AFTER: &str = "4s";

/// What a step may take, on machines with much else to do.
const STEP_DEADLINE: Duration = Duration::from_secs(180);

/// Files that are written once, some of them large; the others change all the time.
const KEPT: std::ops::Range<u64> = 1000..1080;

fn random(state: &mut u64) -> u64 {
    // splitmix64
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 1
}

fn content(number: u64, version: u64) -> Vec<u8> {
    let mut state = number << 32 | version;
    let length = 1 + random(&mut state) % if number.is_multiple_of(5) { 2_000_000 } else { 60_000 };
    crate::content::bytes(state, length as usize)
}

/// Somebody who writes, reads, renames, deletes, compiles and copies in a folder, and minds every error.
struct User {
    stop: Arc<AtomicBool>,
    done_count: Arc<AtomicU64>,
    thread: JoinHandle<(BTreeMap<u64, u64>, Duration)>,
}

impl User {
    fn start(folder: PathBuf) -> Self {
        let (stop, done_count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, done) = (stop.clone(), done_count.clone());
        let thread = std::thread::spawn(move || {
            let (mut versions, mut state, mut longest) = (BTreeMap::new(), SEED, Duration::ZERO);
            for number in KEPT {
                fs::write(file(&folder, number), content(number, 0)).expect("written");
            }
            while !stopped.load(Ordering::SeqCst) {
                let round = done.fetch_add(1, Ordering::SeqCst);
                let began = Instant::now();
                use_once(&folder, round, &mut versions, &mut state);
                longest = longest.max(began.elapsed());
                // Users think, too; and the machine has others to serve.
                std::thread::sleep(Duration::from_millis(60));
            }
            (versions, longest)
        });
        Self { stop, done_count, thread }
    }

    /// Ends the work; says what each file should hold, and how long the longest round took.
    fn end(self) -> (BTreeMap<u64, u64>, Duration) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("no error ever came to the user")
    }
}

fn file(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("file{number}"))
}

fn use_once(folder: &Path, round: u64, versions: &mut BTreeMap<u64, u64>, state: &mut u64) {
    let number = random(state) % 60;
    let fresh = folder.join("fresh");
    let mut writer = File::create(&fresh).expect("made");
    writer.write_all(&content(number, round)).expect("written");
    if round.is_multiple_of(4) {
        writer.sync_all().expect("synced");
    }
    drop(writer);
    fs::rename(&fresh, file(folder, number)).expect("renamed");
    versions.insert(number, round);
    let (&old, &version) = versions.iter().nth((random(state) % versions.len() as u64) as usize).expect("there is one");
    assert!(fs::read(file(folder, old)).expect("read") == content(old, version), "file {old} is another");
    let kept = KEPT.start + random(state) % (KEPT.end - KEPT.start);
    assert!(fs::read(file(folder, kept)).expect("read") == content(kept, 0), "file {kept} is another");
    if round % 7 == 3 {
        fs::remove_file(file(folder, old)).expect("removed");
        versions.remove(&old);
    }
    if round % 25 == 10 {
        build(folder);
    }
    if round % 60 == 20 {
        let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands");
        run(Command::new("cp").args(["-r", tree]).arg(folder.join("copy")));
        run(Command::new("diff").args(["-r", tree]).arg(folder.join("copy")));
        run(Command::new("rm").arg("-r").arg(folder.join("copy")));
    }
}

fn build(folder: &Path) {
    for part in 0..3 {
        let text = format!("int part{part}(int x) {{ return x * {part} + 1; }}\n");
        fs::write(folder.join(format!("part{part}.c")), text).expect("written");
        run(Command::new("cc").current_dir(folder).args(["-c", &format!("part{part}.c")]));
    }
    let main = "int part0(int), part1(int), part2(int); int main() { return part0(1) + part1(2) + part2(3) - 11; }\n";
    fs::write(folder.join("main.c"), main).expect("written");
    run(Command::new("cc").current_dir(folder).args(["-o", "program", "main.c", "part0.o", "part1.o", "part2.o"]));
    run(&mut Command::new(folder.join("program")));
}

fn run(command: &mut Command) {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// One of the volumes: a daemon on each machine, a mount, somebody who uses it, and a worker beside.
struct Volume {
    number: usize,
    code: &'static str,
    daemons: BTreeMap<usize, Served>,
    worker: Option<Caring>,
}

struct Day {
    // Before the network: processes end before their machines.
    volumes: [Volume; 2],
    network: Network,
    sandbox: Sandbox,
}

fn rack(machine: usize) -> usize {
    (machine - 1) % 3
}

impl Day {
    fn of_twelve() -> Self {
        let volume = |number, code| Volume { number, code, daemons: BTreeMap::new(), worker: None };
        let volumes = [volume(0, "rs:6+3"), volume(1, "lrc:4+2+2")];
        let mut day = Self { volumes, network: Network::of(14), sandbox: Sandbox::empty() };
        for volume in 0..2 {
            let (code, meta) = (day.volumes[volume].code, meta(volume));
            day.weft(&["format", "--policy", code, &meta]);
            for machine in 1..=12 {
                day.add(volume, machine, "1");
            }
            fs::create_dir(day.sandbox.path(&mountpoint(volume))).expect("made");
            let mount = ["mount", "-d", "--no-care", &meta, &mountpoint(volume)];
            day.sandbox.mount_by(day.network.weft(&day.sandbox, 0, &mount));
            let timeouts = ["--give-up-after", GIVE_UP_AFTER, "--scrub-every", "0", "--balance-every", "2s"];
            let worker = [&["care", &meta][..], &timeouts].concat();
            day.volumes[volume].worker = Some(Caring::of(day.network.weft(&day.sandbox, 0, &worker)));
        }
        day
    }

    /// A new machine's daemon, as a node of a volume.
    fn add(&mut self, volume: usize, machine: usize, weight: &str) -> String {
        let served = self.serve(volume, machine, 0);
        let (meta, key, name) = (meta(volume), key(volume), machine.to_string());
        let domain = format!("rack{}/host{machine}", rack(machine));
        let place = ["--key", &key, "--domain", &domain, "--weight", weight];
        let said = self.weft(&[&["node", "add", &meta, &name, &served.url][..], &place].concat());
        self.volumes[volume].daemons.insert(machine, served);
        said
    }

    /// `life`: how often the machine's disk was empty already.
    fn serve(&self, volume: usize, machine: usize, life: usize) -> Served {
        let folder = self.sandbox.path(&format!("served{volume}-{machine}-{life}"));
        fs::create_dir_all(&folder).expect("made");
        let listen = format!("{}:{}", Network::address(machine), 7600 + volume);
        let key = key(volume);
        let arguments = ["node", "serve", &folder, "--listen", &listen, "--plain", "--key", &key];
        Served::of(self.network.weft(&self.sandbox, machine, &arguments))
    }

    fn weft(&self, arguments: &[&str]) -> String {
        crate::sandbox::Said::from(self.network.weft(&self.sandbox, 0, arguments).output().expect("weft runs")).ok()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        // A volume that is not whole says so by its status.
        let output = self.network.weft(&self.sandbox, 0, arguments).output().expect("weft runs");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn both(&self, what: &str, is_so: impl Fn(&Volume) -> bool) {
        let began = Instant::now();
        for volume in &self.volumes {
            while !is_so(volume) {
                assert!(began.elapsed() < STEP_DEADLINE, "never: {}: {what}: {}", volume.code, self.standing(volume));
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        println!("{what}: after {:.1} s", began.elapsed().as_secs_f64());
    }

    fn standing(&self, volume: &Volume) -> String {
        let meta = meta(volume.number);
        let said = |arguments: &[&str]| {
            let output = self.network.weft(&self.sandbox, 0, arguments).output().expect("weft runs");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        said(&["status", &meta]) + &said(&["care", "status", &meta])
    }

    fn is_whole(&self, volume: &Volume) -> bool {
        let status = self.json(&["status", "--json", &meta(volume.number)]);
        status["tally"]["degraded_count"] == 0
            && status["tally"]["misplaced_shard_count"] == 0
            && status["marked_count"] == 0
            && status["survives_losses"].as_u64().is_some_and(|losses| losses >= 3)
    }

    fn care(&self, volume: &Volume) -> Value {
        self.json(&["care", "status", "--json", &meta(volume.number)])
    }

    fn kill(&mut self, machine: usize) {
        for volume in &mut self.volumes {
            volume.daemons.remove(&machine).expect("it lives").kill();
        }
    }
}

impl Drop for Day {
    fn drop(&mut self) {
        for volume in 0..2 {
            self.volumes[volume].worker = None;
            let _ = self.sandbox.command(["umount", "--force", &mountpoint(volume)]).output();
        }
    }
}

fn meta(volume: usize) -> String {
    format!("meta{volume}.db")
}

fn key(volume: usize) -> String {
    format!("key{volume}")
}

fn mountpoint(volume: usize) -> String {
    format!("mnt{volume}")
}

#[test]
fn twelve_machines_have_a_bad_day_and_their_users_do_not_notice() {
    let seconds = std::env::var("WEFT_DAY_SECONDS").map_or(2, |text| text.parse().expect("seconds"));
    let calm = Duration::from_secs(seconds);
    println!("seed {SEED}");
    let mut state = SEED;
    let mut day = Day::of_twelve();
    let users: Vec<User> =
        (0..2).map(|volume| User::start(PathBuf::from(day.sandbox.path(&mountpoint(volume))))).collect();
    let work = |users: &[User]| users.iter().map(|user| user.done_count.load(Ordering::SeqCst)).collect::<Vec<_>>();
    // For the time, and until every user has done something more.
    let users_go_on = || {
        let before = work(&users);
        std::thread::sleep(calm);
        until("users go on", || before.iter().zip(work(&users)).all(|(before, now)| before + 10 <= now));
    };
    users_go_on();

    // Three machines die one after another, one of each rack.
    let mut dead: Vec<usize> = Vec::new();
    for in_rack in 0..3 {
        let living: Vec<usize> = (1..=12).filter(|machine| rack(*machine) == in_rack).collect();
        let machine = living[(random(&mut state) % 4) as usize];
        day.kill(machine);
        dead.push(machine);
        day.both(&format!("machine {machine} is given up"), |volume| {
            let (doubted, name) = (day.care(volume)["record"]["doubted"].clone(), machine.to_string());
            doubted
                .as_array()
                .is_some_and(|doubted| doubted.iter().any(|doubt| doubt[0] == name.as_str() && doubt[1] == "given-up"))
        });
        day.both("all is whole without it", |volume| day.is_whole(volume));
    }

    // A rack is cut off for a while: three machines of nine.
    let cut: Vec<usize> = (1..=12).filter(|machine| rack(*machine) == 1 && !dead.contains(machine)).collect();
    let before = work(&users);
    day.network.pull(&cut);
    users_go_on();
    println!("machines {cut:?} were cut off: users did {before:?} to {:?} things", work(&users));
    day.network.plug(&cut);
    day.both("the rack is back, and all is whole", |volume| {
        let doubted = day.care(volume)["record"]["doubted"].as_array().map_or(usize::MAX, Vec::len);
        doubted == dead.len() && day.is_whole(volume)
    });

    // The first of the dead is replaced by an empty machine in its place, and another machine is drained.
    let replaced = dead[0];
    for volume in 0..2 {
        let served = day.serve(volume, replaced, 1);
        let (meta, key) = (meta(volume), key(volume));
        day.weft(&["node", "replace", &meta, &replaced.to_string(), &served.url, "--key", &key]);
        day.volumes[volume].daemons.insert(replaced, served);
    }
    let drained = (1..=12).find(|machine| rack(*machine) == 2 && !dead.contains(machine)).expect("some live");
    for volume in 0..2 {
        day.weft(&["node", "drain", &meta(volume), &drained.to_string()]);
    }
    day.both(&format!("nothing of users is on machine {drained} any more"), |volume| day.is_whole(volume));
    day.kill(drained);

    // Two come that are twice as big.
    for machine in [13, 14] {
        for volume in 0..2 {
            let said = day.add(volume, machine, "2");
            println!("{}: {}", day.volumes[volume].code, said.trim_end().replace('\n', "; "));
        }
    }
    users_go_on();
    for (volume, user) in users.into_iter().enumerate() {
        let (versions, longest) = user.end();
        println!("{}: {} files, the longest round took {longest:?}", day.volumes[volume].code, versions.len());
        let folder = PathBuf::from(day.sandbox.path(&mountpoint(volume)));
        for (number, version) in versions.into_iter().chain(KEPT.map(|number| (number, 0))) {
            assert!(fs::read(file(&folder, number)).expect("read") == content(number, version), "file {number}");
        }
    }

    // At the end everything is whole, where it belongs, and balanced.
    day.both("all is whole and balanced", |volume| {
        let care = day.care(volume);
        care["balance"]["is_out"] == false && care["record"]["now"].is_null() && day.is_whole(volume)
    });
    for volume in &day.volumes {
        for entry in day.care(volume)["record"]["history"].as_array().expect("a list") {
            println!("{}: {}: {}", volume.code, entry["task"], entry["what"]);
        }
    }
    for volume in 0..2 {
        day.volumes[volume].worker = None;
        day.weft(&["umount", &mountpoint(volume)]);
        let report = day.json(&["scrub", "--json", &meta(volume)]);
        assert!(report["report"]["finding_count"] == 0, "{report}");
        day.weft(&["fsck", &meta(volume)]);
    }
}
