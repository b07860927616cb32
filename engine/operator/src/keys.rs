//! `quorate keys`: creates, shows, certifies, encrypts and decrypts key files.

use crate::failure::wrong_call;
use crate::node::keep_memory_secret;
use crate::{Outcome, output};
use clap::{Args, Subcommand, ValueEnum};
use quorate_crypto::key_file::client::{self, ClientKeys};
use quorate_crypto::key_file::passphrase::Passphrases;
use quorate_crypto::key_file::vault;
use quorate_crypto::key_file::{KeyFileError, KeyFileFault};
use quorate_crypto::{KeyPair, SchemeKind, certify};
use quorate_types::ClusterId;
use quorate_types::digest::{decode_hex, encode_hex};
use quorate_types::text::escaped;
use std::path::{Path, PathBuf};

/// Help on passphrases.
pub const PASSPHRASES: &str = "\
Passphrases come from --passphrase-file, or else from the environment variable QUORATE_PASSPHRASE, or else from the
terminal. Replicas and clients read encrypted files too: see `passphrase_file` in their configurations.
Encrypted files have the format of age, and `age --decrypt` reads them";

/// Arguments of `quorate keys`.
#[derive(Args)]
pub struct KeysArgs {
    /// A file whose first line is the passphrase; only its owner may read it.
    #[arg(long, global = true, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Create a new key file of a client, or of the certifier of a cluster's clients. `testnet` creates those of
    /// replicas.
    Generate {
        /// Owner of the key.
        #[arg(value_enum)]
        owner: Owner,
        /// Name of the cluster.
        #[arg(long, value_name = "NAME")]
        cluster: String,
        /// The file to write; it must not exist.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Encrypt the file with a passphrase.
        #[arg(long)]
        encrypt: bool,
    },
    /// Show the public parts of a key file.
    Show {
        /// The key file.
        file: PathBuf,
    },
    /// Certify a client with the certifier's key: add the certificate to the client's key file, or print it as a
    /// line for that file.
    Certify {
        /// The certifier's key file.
        #[arg(long, value_name = "FILE")]
        certifier: PathBuf,
        /// The client's public key, as printed by `keys show`, if its file is elsewhere.
        #[arg(long, value_name = "HEX", conflicts_with = "file")]
        public_key: Option<String>,
        /// The client's key file.
        #[arg(required_unless_present = "public_key")]
        file: Option<PathBuf>,
    },
    /// Encrypt a key file with a passphrase.
    Encrypt {
        /// The key file.
        file: PathBuf,
    },
    /// Decrypt a key file.
    Decrypt {
        /// The key file.
        file: PathBuf,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Owner {
    Client,
    Certifier,
}

/// Runs the command.
///
/// # Errors
/// If a file or a passphrase is unusable.
pub fn run(arguments: KeysArgs) -> Outcome {
    keep_memory_secret()?;
    let passphrases = Passphrases { file: arguments.passphrase_file, command: None };
    match arguments.command {
        KeysCommand::Generate { owner, cluster, out, encrypt } => {
            generate(owner, &ClusterId::from_name(&cluster), &out)?;
            if encrypt {
                // A file that should be encrypted must not stay behind in plain text.
                vault::encrypt(&out, &passphrases).inspect_err(|_| drop(std::fs::remove_file(&out)))?;
            }
            show(&out, &passphrases, !encrypt)
        }
        KeysCommand::Show { file } => show(&file, &passphrases, true),
        KeysCommand::Certify { certifier, public_key, file } => {
            let (cluster, key) = client::read_certifier(&certifier, &passphrases)?;
            match (public_key, file) {
                (Some(public_key), _) => print_certificate(&cluster, &key, &public_key),
                (None, file) => {
                    let file = file.expect("clap requires one of the two");
                    add_certificate(&file, cluster, &key, &passphrases)?;
                    Ok(output::say(&format!("certified {}", file.display()))?)
                }
            }
        }
        KeysCommand::Encrypt { file } => {
            vault::encrypt(&file, &passphrases)?;
            Ok(output::say(&format!("encrypted {}", file.display()))?)
        }
        KeysCommand::Decrypt { file } => {
            vault::decrypt(&file, &passphrases)?;
            Ok(output::say(&format!("decrypted {}", file.display()))?)
        }
    }
}

fn generate(owner: Owner, cluster: &ClusterId, out: &Path) -> Outcome {
    match owner {
        Owner::Client => client::write(out, &ClientKeys::generate(*cluster)?)?,
        Owner::Certifier => client::write_certifier(out, cluster, &KeyPair::generate(SchemeKind::ED25519)?)?,
    }
    Ok(())
}

/// Prints the contents of a file, except for the private keys. A newly written encrypted file is only named, so that
/// the passphrase is not requested again.
fn show(file: &Path, passphrases: &Passphrases, reads: bool) -> Outcome {
    if !reads {
        return Ok(output::say(&format!("wrote and encrypted {}", file.display()))?);
    }
    let about = vault::describe(file, passphrases)?;
    let encryption = if about.is_encrypted { "encrypted" } else { "not encrypted" };
    let mut text = format!("{}: key of a {}, {encryption}", file.display(), about.kind);
    about.fields.iter().for_each(|(name, value)| text.push_str(&format!("\n{name} = {}", escaped(value))));
    Ok(output::say(&text)?)
}

fn print_certificate(cluster: &ClusterId, certifier: &KeyPair, public_key: &str) -> Outcome {
    let key = decode_hex(public_key).filter(|key| key.len() == 32).ok_or_else(|| {
        wrong_call(format!("--public-key {public_key}: expected 64 hexadecimal digits, as `quorate keys show` prints"))
    })?;
    Ok(output::say(&format!("certificate = {}", encode_hex(&certify(certifier, cluster, &key))))?)
}

fn add_certificate(
    file: &Path,
    cluster: ClusterId,
    certifier: &KeyPair,
    passphrases: &Passphrases,
) -> Result<(), KeyFileError> {
    let add = |keys: &mut ClientKeys| {
        if keys.cluster != cluster {
            return Err(KeyFileFault::Cluster { expected: cluster, found: keys.cluster });
        }
        keys.certify(certifier);
        Ok(())
    };
    vault::add_certificate(file, add, passphrases)
}
