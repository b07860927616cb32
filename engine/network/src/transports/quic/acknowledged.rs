//! Acknowledgements as seen by the library's congestion control, whose interface alone reveals the bytes in flight.

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Value of [`Acknowledged`] while there is no new acknowledgement.
const NONE: u64 = u64::MAX;

/// Bytes in flight after the latest acknowledgement.
pub struct Acknowledged(AtomicU64);

impl Default for Acknowledged {
    fn default() -> Acknowledged {
        Acknowledged(AtomicU64::new(NONE))
    }
}

impl Acknowledged {
    /// Removes and returns the bytes in flight after the latest acknowledgement, if one arrived after everything had
    /// been sent.
    pub fn take(&self) -> Option<usize> {
        match self.0.swap(NONE, Ordering::Relaxed) {
            NONE => None,
            bytes => Some(bytes as usize),
        }
    }
}

/// Creates congestion controllers that report acknowledgements.
pub struct Observed {
    controllers: Arc<dyn ControllerFactory + Send + Sync>,
    acknowledged: Arc<Acknowledged>,
}

impl Observed {
    pub fn new(controllers: Arc<dyn ControllerFactory + Send + Sync>, acknowledged: Arc<Acknowledged>) -> Observed {
        Observed { controllers, acknowledged }
    }
}

impl ControllerFactory for Observed {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let controller = self.controllers.clone().build(now, current_mtu);
        Box::new(ObservedController { controller, acknowledged: self.acknowledged.clone() })
    }
}

struct ObservedController {
    controller: Box<dyn Controller>,
    acknowledged: Arc<Acknowledged>,
}

impl Controller for ObservedController {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.controller.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.controller.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_acked: Option<u64>) {
        if app_limited {
            self.acknowledged.0.store(in_flight, Ordering::Relaxed);
        }
        self.controller.on_end_acks(now, in_flight, app_limited, largest_acked);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        self.controller.on_congestion_event(now, sent, is_persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.controller.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.controller.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.controller.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let controller = self.controller.clone_box();
        Box::new(ObservedController { controller, acknowledged: self.acknowledged.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.controller.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
