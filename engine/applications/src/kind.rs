//! Applications by name.

use crate::application::Application;
use crate::key_value::KeyValue;
use crate::log::Log;
use quorate_types::ApplicationKind;

/// Makes a fresh application of this kind.
pub fn build(kind: ApplicationKind) -> Box<dyn Application> {
    match kind {
        ApplicationKind::Log => Box::new(Log::new()),
        ApplicationKind::KeyValue => Box::new(KeyValue::new()),
    }
}
