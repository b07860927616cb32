//! The program on the hosts: one file for each digest.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Programs that stay on a host, so that two builds can take turns.
const KEPT: usize = 3;

/// Returns the SHA-256 digest of a file, in hexadecimal.
///
/// # Errors
/// If it cannot be read.
pub fn digest(path: &Path) -> io::Result<String> {
    let (mut file, mut hasher, mut buffer) = (File::open(path)?, Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(quorate_types::digest::encode_hex(&hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// Returns the path of the program with this digest below a host's directory.
pub fn program(directory: &str, digest: &str) -> String {
    format!("{directory}/bin/quorate-{digest}")
}

/// Returns the command that stores its standard input as the program with this digest. The file gets its name only once
/// it is complete, and old programs are removed.
pub fn command(directory: &str, digest: &str) -> String {
    let (program, after) = (program(directory, digest), KEPT + 1);
    format!(
        "sh -c 'umask 077; mkdir -p {directory}/bin {directory}/runs && f={directory}/bin/.new-$$ && \
         trap \"rm -f $f\" EXIT && cat >$f && if [ \"$(sha256sum <$f | cut -c1-64)\" != {digest} ]; then \
         echo \"the copy is damaged\" >&2; exit 1; fi && chmod 700 $f && mv $f {program} && \
         cd {directory}/bin && ls -t quorate-* | tail -n +{after} | xargs rm -f'"
    )
}
