//! Commands of a world's clients, honest and hostile.

use super::World;
use crate::twins::hostile::{HONEST_LINK, HOSTILE_LINK, HostileClient};
use crate::twins::participants::InstanceId;
use quorate_consensus::Protocol;
use quorate_consensus::seam::Input;

impl<P: Protocol> World<P> {
    /// Sends new client commands to all instances, unless clients send none.
    pub fn send_commands(&mut self) {
        if !self.supplied {
            return;
        }
        self.rounds += 1;
        self.send_hostile_commands();
        self.send_divided_command();
        for bundle in self.stock.of_round(self.rounds) {
            self.checker.submits(bundle);
        }
        for at in 0..self.instances.len() {
            let bundles = self.stock.for_instance(self.rounds, InstanceId(at));
            let sources =
                if self.participants.hostile().is_some() { vec![HONEST_LINK; bundles.len()] } else { Vec::new() };
            self.step(InstanceId(at), Input::Submit { bundles, sources });
        }
    }

    /// Sends the bundles of the hostile client for this view, if there is one.
    fn send_hostile_commands(&mut self) {
        let Some(hostile) = self.participants.hostile() else { return };
        let only = match hostile {
            HostileClient::Flood => None,
            HostileClient::LeaderOnly => Some(self.script.leader(self.limit)),
            HostileClient::OneBackupOnly => Some(self.script.leader(self.limit.next())),
        };
        let bundles = self.stock.hostile_of_round(self.rounds).to_vec();
        bundles.iter().for_each(|bundle| self.checker.admits(bundle));
        for at in self
            .participants
            .instances()
            .filter(|at| only.is_none_or(|only| only == self.participants.identity(*at)))
            .collect::<Vec<_>>()
        {
            let sources = vec![HOSTILE_LINK; bundles.len()];
            self.step(at, Input::Submit { bundles: bundles.clone(), sources });
        }
    }

    /// Sends the bundle of a faulty client for this view, if there is one, to the instances that accept it.
    fn send_divided_command(&mut self) {
        let Some(divide) = &mut self.divide else { return };
        let accepting = divide(self.script.leader(self.limit));
        let bundle = self.stock.hostile_of_round(self.rounds)[0].clone();
        self.checker.admits(&bundle);
        self.divided.insert(bundle.digest(), accepting);
        self.transcript
            .note(|| format!("a client sends a bundle with valid MACs for {{{}}}", self.participants.names(accepting)));
        for at in self.participants.instances().filter(|at| accepting >> at.0 & 1 == 1).collect::<Vec<_>>() {
            self.step(at, Input::Submit { bundles: vec![bundle.clone()], sources: Vec::new() });
        }
    }
}
