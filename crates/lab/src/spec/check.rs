//! What cannot work together is refused before anything starts; what works but may surprise is said.

use super::{BatchPolicy, BenchSpec, Fault, Host, JournalKind, Misbehaviour, Pacing, Problem, SpecError, WorkloadKind};
use quorate_consensus::config::MAX_WINDOW;
use quorate_transports::Wire;
use quorate_types::limits::{MAX_BUNDLE_COMMANDS, MAX_PAYLOAD_BYTES};
use quorate_types::quorum::QuorumError;
use quorate_types::{Quorum, ReplicaId};
use std::collections::BTreeSet;

/// Most clients that one machine drives.
const MAX_CLIENTS: u64 = 10_000;
/// Most commands outstanding over all clients: each is remembered until it is answered.
const MAX_OUTSTANDING: u64 = 16_000_000;
/// Most bytes outstanding over all clients. Each replica keeps them too, and where replicas are threads in the same memory.
const MAX_OUTSTANDING_BYTES: u64 = 256 << 20;
/// Most commands a second that an open loop is asked for.
const MAX_RATE: u64 = 100_000_000;
/// Most records: the key-value store is held in memory, once per replica.
const MAX_RECORDS: u64 = 10_000_000;
/// Largest seed: what an experiment file can hold.
const MAX_SEED: u64 = i64::MAX as u64;
/// Longest view timeout: an hour.
const MAX_VIEW_TIMEOUT_MS: u64 = 60 * 60 * 1000;

/// The least and the most that each key with a whole number may hold; other checks may leave less.
const RANGES: &[(&str, u64, u64)] = &[
    ("replicas", 1, quorate_types::limits::MAX_REPLICAS as u64),
    ("batch", 1, quorate_types::limits::MAX_BLOCK_BUNDLES as u64),
    ("batch_wait_ms", 0, MAX_VIEW_TIMEOUT_MS),
    ("view_timeout_ms", 1, MAX_VIEW_TIMEOUT_MS),
    ("window", 1, MAX_WINDOW as u64),
    ("checkpoint_interval", 1, MAX_WINDOW as u64 / 2),
    ("pipeline", 1, MAX_WINDOW as u64),
    ("base_port", 0, u16::MAX as u64),
    ("payload", 0, MAX_PAYLOAD_BYTES as u64),
    ("records", 1, MAX_RECORDS),
    ("clients", 1, MAX_CLIENTS),
    ("bundle", 1, MAX_BUNDLE_COMMANDS as u64),
    ("rate", 1, MAX_RATE),
    ("outstanding", 1, MAX_OUTSTANDING),
    ("seed", 0, MAX_SEED),
    ("duration", 1, super::MAX_INTERVAL_MS),
    ("record_limit_mb", 1, quorate_recording::MAX_LIMIT_MB),
];

/// The least and the most that a key may hold, if it holds a whole number or a duration in milliseconds.
pub(super) fn range(key: &str) -> Option<(u64, u64)> {
    RANGES.iter().find(|(name, ..)| *name == key).map(|(_, least, most)| (*least, *most))
}

/// Reads the whole number of a flag. Its range is checked with everything else, as a file may hold it too.
pub(super) fn number<T: TryFrom<u64>>(key: &'static str) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok()).ok_or_else(|| whole(key))
}

/// What to write for a key with a whole number.
pub(super) fn whole(key: &str) -> String {
    let range = range(key).map_or_else(String::new, |(least, most)| format!(" from {least} to {most}"));
    format!("write a whole number{range}")
}

pub(super) fn quorum(spec: &BenchSpec) -> Result<Quorum, QuorumError> {
    let replicas = spec.replicas as usize;
    match spec.faults {
        Some(faults) => Quorum::with_faults(replicas, faults as usize),
        None => Quorum::of(replicas),
    }
}

impl BenchSpec {
    /// What carries frames between the replicas, and between them and the clients.
    pub fn wire(&self) -> Wire {
        Wire { transport: self.transport, channel: self.channel, ..Wire::default() }
    }

    /// Checks each value and all together.
    ///
    /// # Errors
    /// Every problem found, each with the flags at fault and what to do.
    pub fn validate(&self) -> Result<(), SpecError> {
        let mut problems = Vec::new();
        self.check_ranges(&mut problems);
        self.check_cluster(&mut problems);
        self.check_load(&mut problems);
        self.check_faults(&mut problems);
        if problems.is_empty() { Ok(()) } else { Err(SpecError::Impossible(problems)) }
    }

    /// Checks what real replicas cannot do though simulated ones can.
    ///
    /// # Errors
    /// The flags at fault and what to do.
    pub fn validate_real(&self) -> Result<(), SpecError> {
        let comes_back = self.fault.iter().find(|fault| matches!(fault, Fault::Restart(..)));
        if let Some(fault) = self.fault.iter().find(|fault| matches!(fault, Fault::Hostile(..))) {
            let what = format!("`{fault}` is a simulated client");
            let help = "use `quorate sim`, or the example `hostile` of quorate-node";
            return Err(SpecError::Impossible(vec![problem("--fault", what, help)]));
        }
        match comes_back {
            Some(fault) if self.host == Host::Threads => {
                let what = format!("`{fault}` wants a replica back that ends with its thread");
                Err(SpecError::Impossible(vec![problem("--fault, --host", what, "set --host processes")]))
            }
            Some(fault) if self.journal() == JournalKind::Memory => {
                let what = format!("`{fault}` wants a replica back that forgets all it has promised");
                Err(SpecError::Impossible(vec![problem("--fault, --journal", what, "set --journal file")]))
            }
            _ => Ok(()),
        }
    }

    fn check_ranges(&self, problems: &mut Vec<Problem>) {
        let values = [
            ("batch", self.batch.into()),
            ("batch_wait_ms", self.batch_wait_ms),
            ("window", self.window),
            ("checkpoint_interval", self.checkpoint_interval),
            ("pipeline", self.pipeline),
            ("view_timeout_ms", self.view_timeout_ms),
            ("payload", self.payload.into()),
            ("records", self.records),
            ("clients", self.clients.into()),
            ("bundle", self.bundle.into()),
            ("rate", self.rate.unwrap_or(1)),
            ("outstanding", self.outstanding.unwrap_or(1).into()),
            ("seed", self.seed),
            ("duration", self.duration.as_millis()),
            ("record_limit_mb", self.record_limit_mb),
        ];
        for (key, value) in values {
            let (least, most) = range(key).expect("the table has it");
            if value < least || value > most {
                problems.push(problem(
                    &flag(key),
                    format!("{value} is out of range"),
                    format!("set {least} to {most}"),
                ));
            }
        }
        for (flag, path) in [("--json", &self.json), ("--report", &self.report)] {
            if path.as_deref() == Some("") {
                problems.push(problem(flag, "the path is empty", format!("name a file, or leave {flag} out")));
            }
        }
    }

    fn check_cluster(&self, problems: &mut Vec<Problem>) {
        match quorum(self) {
            Ok(_) => {}
            Err(e @ QuorumError::Size(_)) => {
                problems.push(problem("--replicas", e.to_string(), "set 4 for one Byzantine replica, 3f+1 for f"));
            }
            Err(e @ QuorumError::TooFewReplicas { .. }) => {
                let most = self.replicas.saturating_sub(1) / 3;
                let help = format!("set --faults {most}, or leave it out");
                problems.push(problem("--replicas, --faults", e.to_string(), help));
            }
        }
        if let Err(e) = self.consensus().validate()
            && !problems.iter().any(|told| told.place == flag(e.place))
        {
            problems.push(problem(&flag(e.place), format!("the value {}", e.what), e.help));
        }
        if let Err(error) = self.wire().fits() {
            problems.push(problem("--channel, --transport", format!("the channel {}", error.what), error.help));
        }
        let last_port = u64::from(self.base_port) + u64::from(self.replicas) - u64::from(self.replicas > 0);
        if self.base_port != 0 && last_port > u64::from(u16::MAX) {
            let what = format!("{} ports from {} reach beyond {}", self.replicas, self.base_port, u16::MAX);
            let highest = (u64::from(u16::MAX) + 1).saturating_sub(self.replicas.into());
            problems.push(problem("--base-port", what, format!("set a lower port, {highest} at most")));
        }
    }

    fn check_load(&self, problems: &mut Vec<Problem>) {
        if let (Some(rate), Some(outstanding)) = (self.rate, self.outstanding) {
            problems.push(problem(
                "--rate, --outstanding",
                format!("an open loop of {rate} commands a second has no limit of {outstanding} outstanding"),
                "leave --outstanding out to keep the rate, or --rate to keep a closed loop",
            ));
        } else if let Some(outstanding) = self.outstanding {
            let all = u64::from(outstanding) * u64::from(self.clients);
            if all > MAX_OUTSTANDING && self.clients > 1 {
                let what = format!("{all} commands outstanding over all clients are more than {MAX_OUTSTANDING}");
                problems.push(problem("--outstanding, --clients", what, "lower one of them"));
            }
        }
        if let Some(outstanding) = self.outstanding.filter(|_| self.rate.is_none()) {
            let most = self.max_outstanding();
            if outstanding > most && self.clients <= MAX_CLIENTS as u32 {
                let bytes = u64::from(outstanding) * u64::from(self.clients) * self.command_bytes() as u64;
                let what = format!(
                    "{} clients with {outstanding} outstanding commands of {} bytes are {} MB in flight, more than {} MB",
                    self.clients,
                    self.payload,
                    bytes / 1_000_000,
                    MAX_OUTSTANDING_BYTES / 1_000_000
                );
                problems.push(problem(
                    "--outstanding, --payload",
                    what,
                    format!("set --outstanding to at most {most}"),
                ));
            }
        }
        let most = self.consensus().batch_bytes;
        let beside = super::COMMAND_OVERHEAD_BYTES + super::BUNDLE_OVERHEAD_BYTES;
        if self.payload as usize + beside > most && self.payload as usize <= MAX_PAYLOAD_BYTES {
            let what = format!("one command of {} bytes does not fit a block of {most}", self.payload);
            problems.push(problem("--payload", what, format!("set at most {}", most - beside)));
        }
    }

    fn check_faults(&self, problems: &mut Vec<Problem>) {
        let Ok(quorum) = quorum(self) else { return };
        if let Some(one) = self.record.as_ref().and_then(|record| record.replica)
            && one.index() >= quorum.replicas()
        {
            let last = quorum.replicas() - 1;
            let what = format!("there is no replica {one}; the last one is {last}");
            problems.push(problem("--record", what, "name one that there is, or a directory for all"));
        }
        let mut seen: Vec<Fault> = Vec::new();
        for fault in &self.fault {
            if let Some(replica) = fault.replica()
                && replica.index() >= quorum.replicas()
            {
                let last = quorum.replicas() - 1;
                let what = format!("`{fault}` names replica {replica}, and the last one is {last}");
                problems.push(problem("--fault", what, format!("name a replica from 0 to {last}")));
            }
            if let Some(other) = seen.iter().find(|other| clash(**other, *fault))
                && let Some(replica) = fault.replica()
            {
                let what = format!("`{other}` and `{fault}` cannot both happen to replica {replica}");
                problems.push(problem("--fault", what, "keep one of them"));
            }
            if let Fault::Misbehave(replica, how, _) = fault
                && let Some(why) = how.misfit(*replica, quorum.replicas())
            {
                problems.push(problem("--fault", format!("`{fault}` {why}"), "name other replicas, or none after it"));
            }
            if fault.at().is_some_and(|at| at >= self.duration) {
                let what = format!("`{fault}` comes after the measured {} are over", self.duration);
                problems.push(problem("--fault, --duration", what, "let it come earlier, or raise --duration"));
            }
            seen.push(*fault);
        }
        if let Some(why) = self.consensus().stalls_with_silent(quorum, &self.silent()) {
            let help = "take away silent replicas, or choose a --leader and --protocol that can go on without them";
            problems.push(problem("--fault, --leader, --protocol", why, help));
        }
    }

    /// The keys that were set and change nothing, and why.
    fn without_effect(&self) -> Vec<(&'static str, String)> {
        let default = BenchSpec::default();
        let is_ycsb = !matches!(self.workload, WorkloadKind::Fixed | WorkloadKind::File(_));
        let keys = [
            (
                "pipeline",
                self.pipeline != default.pipeline && !self.protocol.has_slots(),
                format!("{} has no slots", self.protocol),
            ),
            (
                "batch_wait_ms",
                self.batch_wait_ms != default.batch_wait_ms && self.batch_policy != BatchPolicy::Timed,
                format!("--batch-policy is {}, not timed", self.batch_policy),
            ),
            (
                "records",
                self.records != default.records && !is_ycsb,
                format!("--workload {} has no records", self.workload),
            ),
            (
                "payload",
                self.payload != default.payload && matches!(self.workload, WorkloadKind::File(_)),
                "the commands are those of the file".to_owned(),
            ),
            (
                "fsync",
                self.fsync != default.fsync && self.journal() == JournalKind::Memory,
                "the journal is in memory".to_owned(),
            ),
            (
                "record_limit_mb",
                self.record_limit_mb != default.record_limit_mb && self.record.is_none(),
                "nothing is recorded".to_owned(),
            ),
        ];
        keys.into_iter().filter(|(_, is_idle, _)| *is_idle).map(|(key, _, why)| (key, why)).collect()
    }

    /// What to say of keys that were set and change nothing in a simulation: one sentence each.
    pub fn idle_in_simulation(&self) -> Vec<String> {
        let default = BenchSpec::default();
        let keys = [
            ("host", self.host != default.host),
            ("base_port", self.base_port != default.base_port),
            ("journal", self.journal.is_some()),
            ("fsync", self.fsync != default.fsync && self.journal() != JournalKind::Memory),
        ];
        let idle = keys.into_iter().filter(|(_, is_set)| *is_set);
        idle.map(|(key, _)| format!("{}: replicas, ports and disks are simulated, so that changes nothing", flag(key)))
            .collect()
    }

    /// What to say where more replicas misbehave than the cluster is built for; those that never speak are judged by themselves.
    pub fn beyond_faults(&self) -> Option<String> {
        let misbehaves = |fault: &&Fault| matches!(fault, Fault::Misbehave(..));
        let liars: BTreeSet<ReplicaId> =
            self.fault.iter().filter(misbehaves).filter_map(|fault| fault.replica()).collect();
        let faults = self.quorum().faults();
        (liars.len() > faults).then(|| {
            let names: Vec<String> = liars.iter().map(ToString::to_string).collect();
            format!(
                "--fault: {} replicas misbehave ({}), and {} replicas bear f = {faults}: nothing is promised, neither agreement nor progress",
                liars.len(),
                names.join(", "),
                self.replicas
            )
        })
    }

    /// Most commands that each client may keep outstanding, for their bytes; one at least.
    pub(super) fn max_outstanding(&self) -> u32 {
        let all = MAX_OUTSTANDING_BYTES / self.command_bytes() as u64;
        u32::try_from(all / u64::from(self.clients.max(1))).unwrap_or(u32::MAX).max(1)
    }

    /// Most commands outstanding over all clients in an open loop, for their bytes; one at least.
    pub(crate) fn max_in_flight(&self) -> usize {
        (MAX_OUTSTANDING_BYTES as usize / self.command_bytes()).max(1)
    }

    /// What works but may surprise: one sentence each, for the terminal and the report. Of a validated spec.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.scheme.profile().unforgeable {
            warnings.push(
                "--scheme none: nothing is signed, so one lying replica can break agreement; a baseline only".into(),
            );
        }
        if let Pacing::Closed { outstanding } = self.pacing() {
            let all = u64::from(outstanding) * u64::from(self.clients);
            if self.batch_policy == BatchPolicy::Full && all < u64::from(self.batch) {
                warnings.push(format!(
                    "--batch-policy full: {all} commands outstanding never fill a block of {}; each block waits a quarter of a view \
                     timeout. Use --batch-policy eager, or raise --outstanding",
                    self.batch
                ));
            }
        }
        warnings.extend(self.beyond_faults());
        let bundle = self.bundle_commands();
        if bundle < self.bundle as usize && self.bundle != BenchSpec::default().bundle {
            warnings.push(format!(
                "--bundle {}: bundles hold {bundle} commands, as --batch, --outstanding or --payload limit them",
                self.bundle
            ));
        }
        warnings.extend(
            self.without_effect()
                .into_iter()
                .map(|(key, why)| format!("{}: {why}, so that changes nothing", flag(key))),
        );
        let gone: Vec<ReplicaId> = self.silent().into_iter().chain(self.crashes().iter().map(|(id, _)| *id)).collect();
        if let Some(why) = self.consensus().stalls_with_silent(self.quorum(), &gone)
            && !self.crashes().is_empty()
        {
            warnings.push(format!("--fault: after the crash {why}"));
        }
        warnings
    }
}

/// Whether two faults contradict each other: who misbehaves may crash, but has one way to misbehave, and whoever never speaks need not
/// crash. Who is killed twice has to be back before the second time.
fn clash(one: Fault, other: Fault) -> bool {
    let misbehaves = |fault| matches!(fault, Fault::Misbehave(..));
    let never_speaks = |fault| matches!(fault, Fault::Misbehave(_, Misbehaviour::Silent, None));
    let is_over_before =
        |one: Fault, other: Fault| one.over_ms().zip(other.at()).is_some_and(|(over, at)| over < at.as_millis());
    let fit = match (misbehaves(one), misbehaves(other)) {
        (true, true) => false,
        (false, false) => is_over_before(one, other) || is_over_before(other, one),
        _ => !never_speaks(one) && !never_speaks(other),
    };
    one.replica().is_some() && one.replica() == other.replica() && !fit
}

fn flag(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

fn problem(place: &str, what: impl Into<String>, help: impl Into<String>) -> Problem {
    Problem::new(place, what, help)
}
