//! Validates a spec: refuses invalid values and combinations before anything starts, and warns of surprising ones.

use super::flat::{ENTRIES, flag_at, flag_of, flatten, value_in};
use super::{
    BatchPolicy, BenchSpec, ClientAuthentication, Dissemination, Fault, Host, Interval, JournalKind, MAX_INTERVAL_MS,
    Pacing, Problem, ReplyMode, SchemeKind, SpecError, VotesTo,
};
use super::{MAX_CLIENTS, MAX_OUTSTANDING};
use crate::affinity;
use quorate_applications::key_value::MAX_VALUE_BYTES;
use quorate_crypto::Authentication;
use quorate_network::transports::LinkProfile;
use quorate_simulator::models::plan::positive;
use quorate_types::limits::MAX_PAYLOAD_BYTES;
use quorate_types::quorum::QuorumError;
use quorate_types::{Quorum, ReplicaId};
use std::collections::BTreeSet;

/// Maximum outstanding bytes over all clients. Each replica stores them as well, and replicas in threads share the
/// process's memory.
const MAX_OUTSTANDING_BYTES: u64 = 256 << 20;

pub(super) fn quorum(spec: &BenchSpec) -> Result<Quorum, QuorumError> {
    let replicas = spec.replicas as usize;
    match spec.node.faults {
        Some(faults) => Quorum::with_faults(replicas, faults),
        None => Quorum::of(replicas),
    }
}

impl BenchSpec {
    /// Checks each value, and all values together.
    ///
    /// # Errors
    /// Every problem found, each with the responsible flags and a remedy.
    pub fn validate(&self) -> Result<(), SpecError> {
        let mut problems = Vec::new();
        self.check_ranges(&mut problems);
        self.check_cluster(&mut problems);
        self.check_load(&mut problems);
        self.check_faults(&mut problems);
        if problems.is_empty() { Ok(()) } else { Err(SpecError::Impossible(problems)) }
    }

    /// Refuses faults that only the simulator supports, and specs that need more cores than this machine has.
    ///
    /// # Errors
    /// The responsible flags and a remedy.
    pub fn validate_real(&self) -> Result<(), SpecError> {
        self.validate_real_faults()?;
        match self.lacking_cores() {
            None => Ok(()),
            Some(what) => {
                let help = format!("set fewer, or simulate them: quorate sim --cores {}", self.cores);
                Err(SpecError::Impossible(vec![problem("--cores", what, help)]))
            }
        }
    }

    /// Refuses faults that only the simulator supports.
    ///
    /// # Errors
    /// The responsible flags and a remedy.
    pub fn validate_real_faults(&self) -> Result<(), SpecError> {
        let comes_back = self.fault.iter().find(|fault| matches!(fault, Fault::Restart(..)));
        let needs_simulator =
            |fault: &&Fault| matches!(fault, Fault::Hostile(..) | Fault::OffPath(..) | Fault::Skew(..));
        if let Some(fault) = self.fault.iter().find(needs_simulator) {
            let what = format!("`{fault}` needs the simulator");
            let help = "use `quorate sim`, or the example `hostile` of quorate-node";
            return Err(SpecError::Impossible(vec![problem("--fault", what, help)]));
        }
        match comes_back {
            Some(fault) if self.host == Host::Threads => {
                let what = format!("`{fault}` needs `--host processes`: a thread cannot be restarted");
                Err(SpecError::Impossible(vec![problem("--fault, --host", what, "set --host processes")]))
            }
            Some(fault) if self.journal() == JournalKind::Memory => {
                let what = format!("`{fault}` would restart a replica that forgets its votes");
                Err(SpecError::Impossible(vec![problem("--fault, --journal", what, "set --journal file")]))
            }
            _ => Ok(()),
        }
    }

    /// Returns a message if this machine has fewer cores than the spec needs.
    pub fn lacking_cores(&self) -> Option<String> {
        let available = affinity::available();
        let lacks = self.cores as usize > available;
        lacks.then(|| format!("{} are more than the {available} that this machine offers this process", self.cores))
    }

    fn check_ranges(&self, problems: &mut Vec<Problem>) {
        let flat = flatten(self);
        // The number of replicas is checked together with the number of faults.
        for entry in ENTRIES.iter().filter(|entry| entry.name != "replicas") {
            let checked = value_in(entry, &flat).map_or(Ok(()), |value| entry.key.check(value));
            problems.extend(checked.err().map(|fault| problem(&flag_of(entry.name), fault.what, fault.help)));
        }
        let duration = self.duration.as_millis();
        if duration == 0 {
            problems.push(problem(
                "--duration",
                "is 0",
                format!("set 1ms to {}", Interval::from_millis(MAX_INTERVAL_MS)),
            ));
        }
        problems.extend(positive("--line-rate", self.line_rate.0, "bits per second").err());
        for (flag, path) in [("--json", &self.json), ("--report", &self.report)] {
            if path.as_deref() == Some("") {
                problems.push(problem(flag, "the path is empty", format!("name a file, or omit {flag}")));
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
                let help = format!("set --faults {most}, or omit it");
                problems.push(problem("--replicas, --faults", e.to_string(), help));
            }
        }
        let template = self.template();
        if let Err(e) = template.consensus.validate()
            && !problems.iter().any(|told| told.place == flag_at(e.place))
        {
            problems.push(problem(&flag_at(e.place), format!("the value {}", e.what), e.help));
        }
        if let Err(e) = self.node.reproduction.copies.validate(self.node.consensus.protocol) {
            problems.push(problem(&flag_of(e.place), format!("the value {}", e.what), e.help));
        }
        let is_unknown = |link: &&LinkProfile| u32::from(link.ends()[1].0) >= self.replicas;
        if let Some(link) = self.node.links.retransmission.iter().find(is_unknown) {
            let what = format!("the link {link} has an end that is no replica");
            problems.push(problem("--link-retransmission, --replicas", what, "replicas count from 0"));
        }
        if let Err(error) = template.wire().fits() {
            problems.push(problem("--channel, --transport", format!("the channel {}", error.what), error.help));
        }
        if let Err(error) = template.wire().validate_settings() {
            let place = flag_at(&format!("{}.{}", error.place.table, error.place.key));
            if !problems.iter().any(|told| told.place == place) {
                problems.push(problem(&place, format!("the value {}", error.what), error.help));
            }
        }
        if let Some(why) = self.node.scheme.profile().weakness.filter(|_| !self.node.accept_weak_scheme) {
            let help = "choose another scheme, or set --accept-weak-scheme for measurements";
            problems.push(problem("--scheme", format!("{} is weak: {why}", self.node.scheme), help));
        }
        let authentication = Authentication {
            profile: self.node.auth_profile,
            scheme: self.node.scheme,
            mac_scheme: self.node.mac_scheme,
            clients: self.node.client_authentication,
            replies: self.node.reply_authentication,
            replicas: self.replicas as usize,
        };
        let protocol = self.node.consensus.protocol;
        let fits = authentication.check(protocol.name(), protocol.requires(), protocol.requires_of_votes());
        if let Err(quorate_types::Fault { place, what, help }) = fits {
            problems.push(problem(&flag_at(place), format!("the value {what}"), help));
        }
        let last_port = u64::from(self.base_port) + u64::from(self.replicas) - u64::from(self.replicas > 0);
        if self.base_port != 0 && last_port > u64::from(u16::MAX) {
            let what = format!("{} ports from {} on reach beyond {}", self.replicas, self.base_port, u16::MAX);
            let highest = (u64::from(u16::MAX) + 1).saturating_sub(self.replicas.into());
            problems.push(problem("--base-port", what, format!("set a lower port, {highest} at most")));
        }
    }

    fn check_load(&self, problems: &mut Vec<Problem>) {
        self.check_pacing(problems);
        if self.fails_slots() && self.workload.is_key_value() {
            let what = format!("the records of `{}` are loaded by requests, and some would fail", self.workload);
            problems.push(problem("--workload, --protocol", what, "omit --workload, or name a file"));
        }
        if self.fails_slots() && self.node.reply == ReplyMode::None {
            let what = "a request succeeds by the replies to it";
            problems.push(problem("--reply, --protocol", what, "omit --reply"));
        }
        // Only explicit values are refused; a default that is too large for the payload was lowered.
        let is_given = self.outstanding.is_some() && self.rate.is_none() || self.load_profile.is_some();
        if let Pacing::Closed { outstanding } = self.most_pacing()
            && is_given
        {
            self.check_outstanding(outstanding, problems);
        }
        if self.workload.is_key_value() && self.payload as usize > MAX_VALUE_BYTES {
            let what = format!("a value of the key-value store has at most {MAX_VALUE_BYTES} bytes");
            problems.push(problem("--payload, --workload", what, format!("set at most {MAX_VALUE_BYTES}")));
        }
        let most = self.consensus().batch_bytes;
        let beside = super::COMMAND_OVERHEAD_BYTES + super::BUNDLE_OVERHEAD_BYTES;
        if self.payload as usize + beside > most && self.payload as usize <= MAX_PAYLOAD_BYTES {
            let what = format!("a command of {} bytes does not fit into a block of {most}", self.payload);
            problems.push(problem("--payload", what, format!("set at most {}", most - beside)));
        }
    }

    /// Checks that at most one pacing is given, and that it fits the other flags.
    fn check_pacing(&self, problems: &mut Vec<Problem>) {
        if let (Some(rate), Some(outstanding)) = (self.rate, self.outstanding) {
            problems.push(problem(
                "--rate, --outstanding",
                format!("an open loop of {rate} commands per second cannot keep {outstanding} outstanding"),
                "omit --outstanding to keep the rate, or omit --rate to keep a closed loop",
            ));
        }
        if let Some(profile) = &self.load_profile {
            let given = [("--rate", self.rate.is_some()), ("--outstanding", self.outstanding.is_some())];
            for (flag, _) in given.into_iter().chain([("--search", self.search)]).filter(|(_, is_given)| *is_given) {
                let what = format!("`{profile}` decides the load by itself");
                problems.push(problem(&format!("--load-profile, {flag}"), what, "omit one of them"));
            }
            if self.duration < profile.lasts() {
                let what = format!("`{profile}` takes {}, but {} are measured", profile.lasts(), self.duration);
                let help = format!("omit --duration, or set {}", profile.lasts());
                problems.push(problem("--load-profile, --duration", what, help));
            }
        }
        if self.search && self.outstanding.is_some() {
            let help = "omit --outstanding, or omit --search";
            problems.push(problem("--search, --outstanding", "a search varies the rate of an open loop", help));
        }
        if self.search && self.record.is_some() {
            let help = "repeat the run at the rate found, with --rate and --record";
            problems.push(problem("--search, --record", "a search has several runs; a recording holds one", help));
        }
    }

    fn check_outstanding(&self, outstanding: u32, problems: &mut Vec<Problem>) {
        let flag = if self.load_profile.is_some() { "--load-profile" } else { "--outstanding" };
        let all = u64::from(outstanding) * u64::from(self.clients);
        if all > MAX_OUTSTANDING && self.clients > 1 {
            let what = format!("{all} outstanding commands over all clients exceed {MAX_OUTSTANDING}");
            problems.push(problem(&format!("{flag}, --clients"), what, "lower one of them"));
        }
        let most = self.max_outstanding();
        if outstanding > most && self.clients <= MAX_CLIENTS as u32 {
            let bytes = u64::from(outstanding) * u64::from(self.clients) * self.command_bytes() as u64;
            let what = format!(
                "{} clients with {outstanding} outstanding commands of {} bytes keep {} MB in flight, above {} MB",
                self.clients,
                self.payload,
                bytes / 1_000_000,
                MAX_OUTSTANDING_BYTES / 1_000_000
            );
            problems.push(problem(&format!("{flag}, --payload"), what, format!("set {flag} to at most {most}")));
        }
    }

    fn check_faults(&self, problems: &mut Vec<Problem>) {
        let Ok(quorum) = quorum(self) else { return };
        if let Some(one) = self.record.as_ref().and_then(|record| record.replica)
            && one.index() >= quorum.replicas()
        {
            let last = quorum.replicas() - 1;
            let what = format!("there is no replica {one}; the last one is {last}");
            problems.push(problem("--record", what, "name an existing replica, or a directory for all"));
        }
        let mut seen: Vec<Fault> = Vec::new();
        for fault in &self.fault {
            if let Some(replica) = fault.replicas().highest()
                && replica.index() >= quorum.replicas()
            {
                let last = quorum.replicas() - 1;
                let what = format!("`{fault}` names replica {replica}, but the last one is {last}");
                problems.push(problem("--fault", what, format!("name a replica from 0 to {last}")));
            }
            if let Some((other, replica)) = seen.iter().find_map(|other| Some((other, clash(*other, *fault)?))) {
                let what = format!("`{other}` and `{fault}` cannot both happen to replica {replica}");
                problems.push(problem("--fault", what, "keep one of them"));
            }
            if let Fault::Misbehave(replicas, how, _) = fault
                && let Some(why) = replicas.iter().find_map(|replica| how.misfit(replica, quorum.replicas()))
            {
                problems.push(problem("--fault", format!("`{fault}` {why}"), "name other replicas, or none after it"));
            }
            if let Fault::Hostile(client, ..) = fault
                && client.divides()
                && self.node.client_authentication == ClientAuthentication::None
            {
                let what = format!("`{fault}` needs clients that authenticate bundles");
                let help = "set --client-authentication mac or ed25519, with the --auth-profile for it";
                problems.push(problem("--fault, --client-authentication", what, help));
            }
            if matches!(fault, Fault::OffPath(..)) && self.node.transport.carrier().association().is_none() {
                let what = format!("`{fault}` needs a transport over packets, not `{}`", self.node.transport);
                problems.push(problem("--fault, --transport", what, "set --transport rudp, sctp, quic or udp"));
            }
            if fault.at().is_some_and(|at| at >= self.duration) {
                let what = format!("`{fault}` starts after the measured {}", self.duration);
                problems.push(problem("--fault, --duration", what, "start it earlier, or raise --duration"));
            }
            seen.push(*fault);
        }
        if let Some(why) = self.consensus().stalls_with_silent(quorum, &self.silent()) {
            let help = "remove silent replicas, or choose a --leader and --protocol that make progress without them";
            problems.push(problem("--fault, --leader, --protocol", why, help));
        }
    }

    /// Returns a warning if more replicas misbehave than the cluster tolerates. Silent replicas are judged separately.
    pub fn beyond_faults(&self) -> Option<String> {
        let misbehaves = |fault: &&Fault| matches!(fault, Fault::Misbehave(..));
        let liars: BTreeSet<ReplicaId> = self
            .fault
            .iter()
            .filter(misbehaves)
            .flat_map(|fault| fault.replicas().iter().collect::<Vec<_>>())
            .collect();
        let faults = self.quorum().faults();
        (liars.len() > faults).then(|| {
            let names: Vec<String> = liars.iter().map(ToString::to_string).collect();
            format!(
                "--fault: {} replicas misbehave ({}), but {} replicas tolerate only f = {faults}: neither agreement \
                 nor progress is guaranteed",
                liars.len(),
                names.join(", "),
                self.replicas
            )
        })
    }

    /// Returns the maximum number of outstanding commands per client, given their size; at least one.
    pub(super) fn max_outstanding(&self) -> u32 {
        let all = MAX_OUTSTANDING_BYTES / self.command_bytes() as u64;
        u32::try_from(all / u64::from(self.clients.max(1))).unwrap_or(u32::MAX).max(1)
    }

    /// Returns the maximum number of outstanding commands over all clients in an open loop, given their size; at least
    /// one.
    pub(crate) fn max_in_flight(&self) -> usize {
        (MAX_OUTSTANDING_BYTES as usize / self.command_bytes()).max(1)
    }

    /// Returns warnings about a valid spec with surprising effects, for the terminal and the report.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.node.scheme.profile().unforgeable {
            warnings.push(
                "--scheme none: nothing is signed, so one Byzantine replica can break agreement; baseline only".into(),
            );
        }
        if let Some(why) = self.node.scheme.profile().weakness {
            warnings.push(format!("--scheme {}: {why}; for measurements only", self.node.scheme));
        }
        if let Pacing::Closed { outstanding } = self.pacing() {
            let all = u64::from(outstanding) * u64::from(self.clients);
            let fills = self.node.consensus.batch.is_auto() || all >= self.node.consensus.batch.max_commands() as u64;
            if self.node.consensus.batch_policy == BatchPolicy::Full && !fills {
                warnings.push(format!(
                    "--reproduction batch_policy=full: {all} outstanding commands never fill a block of {}; each block \
                     waits a quarter of a view timeout; help: use batch_policy=eager, or raise --outstanding",
                    self.node.consensus.batch
                ));
            }
        }
        warnings.extend(self.slow_aggregates());
        warnings.extend(self.beyond_faults());
        let bundle = self.bundle_commands();
        if bundle < self.bundle as usize && self.bundle != BenchSpec::default().bundle {
            warnings.push(format!(
                "--bundle {}: bundles hold {bundle} commands, limited by --batch, --outstanding or --payload",
                self.bundle
            ));
        }
        let idle = self.without_effect(flag_at).into_iter();
        warnings.extend(idle.map(|idle| format!("{}: has no effect, because {}", flag_of(idle.key), idle.reason)));
        let gone: Vec<ReplicaId> = self.silent().into_iter().chain(self.crashes().iter().map(|(id, _)| *id)).collect();
        if let Some(why) = self.consensus().stalls_with_silent(self.quorum(), &gone)
            && !self.crashes().is_empty()
        {
            warnings.push(format!("--fault: after the crash {why}"));
        }
        warnings
    }
}

impl BenchSpec {
    /// Warns of settings that verify slow aggregates one after the other, as measured by the pairwise test of the
    /// settings.
    fn slow_aggregates(&self) -> Option<String> {
        let scheme = self.node.scheme;
        if scheme != SchemeKind::BLS12_381 {
            return None;
        }
        if self.node.consensus.dissemination == Dissemination::ReplicasCertified {
            return Some(format!(
                "--scheme {scheme} with --dissemination replicas-certified: each bundle waits for a certificate, so a \
                 command at low load takes more than twice as long as with --dissemination client; help: use --scheme \
                 ed25519"
            ));
        }
        (self.node.consensus.votes == VotesTo::Collector && !self.node.consensus.protocol.has_slots()).then(|| {
            format!(
                "--scheme {scheme} with --votes collector: an aggregate is verified by the collector and then by all, \
                 so a block takes twice as long as with --votes all, where each replica makes it itself"
            )
        })
    }
}

/// Returns a replica at which two faults contradict each other. A misbehaving replica may crash, but has only one
/// misbehaviour, and an always silent replica must not crash. A replica that is killed twice has to be restarted in
/// between.
fn clash(one: Fault, other: Fault) -> Option<ReplicaId> {
    let misbehaves = |fault| matches!(fault, Fault::Misbehave(..));
    let is_over_before =
        |one: Fault, other: Fault| one.over_ms().zip(other.at()).is_some_and(|(over, at)| over < at.as_millis());
    let fit = match (misbehaves(one), misbehaves(other)) {
        (true, true) => false,
        (false, false) => is_over_before(one, other) || is_over_before(other, one),
        _ => !one.never_speaks() && !other.never_speaks(),
    };
    let (replicas, others) = (one.replicas(), other.replicas());
    replicas.iter().find(|replica| !fit && others.contains(*replica))
}

fn problem(place: &str, what: impl Into<String>, help: impl Into<String>) -> Problem {
    Problem::new(place, what, help)
}
