//! Applications that are not in this program. Commands that only talk to replicas need their names alone.

use quorate_applications::{ApplicationKind, Factory};
use std::fs;
use std::path::Path;

/// Lets this process read configurations that name the same application as this file, although the application may be
/// another program's. Ignores a file that it cannot read: the error follows when the configuration is read.
///
/// The application must not be created afterwards, so this is only for commands that execute nothing.
pub fn admit_application_of(config: &Path) {
    let text = fs::read_to_string(config).unwrap_or_default();
    let Ok(table) = text.parse::<toml::Table>() else { return };
    let Some(name) = table.get("application").and_then(toml::Value::as_str) else { return };
    if ApplicationKind::known().iter().any(|known| known.name() == name) {
        return;
    }
    // A process calls this a few times at most.
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    let factory = Box::leak(Box::new(Factory { name, make: || unreachable!("nothing is executed") }));
    // A malformed name is reported when the configuration is read.
    let _ = ApplicationKind::register(factory);
}
