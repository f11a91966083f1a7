//! Who asks: the file with a certificate that manager, nodes and operators show. And `quincunx manager init`, which makes such files for
//! those who have none.

use clap::Args;
use quincunx_control_grpc::{Authority, Credentials, Subject};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::operate::ManagerOptions;
use crate::out::say;

/// `quincunx manager init`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx manager init certs --node leaf1,leaf2 --tenant blue,red
  quincunx manager --listen 10.0.0.9:4790 --identity certs/manager.pem
  quincunx switch --name leaf1 --address 10.0.0.1 --manager 10.0.0.9:4790 --identity certs/node-leaf1.pem
  quincunx perf all_reduce --manager 10.0.0.9:4790 --identity certs/tenant-blue.pem --addresses 10.0.0.11,10.0.0.12 --ranks 2
  quincunx group list --manager 10.0.0.9:4790 --identity certs/operator-admin.pem
  quincunx manager init certs --node leaf3                    later, by the same authority

DIR gets authority.pem and authority-key.pem, manager.pem, operator-admin.pem, and a file for each name, that its owner alone may read. Give
each machine the one that is its own. authority-key.pem makes certificates: keep it where nobody else is. A tenant's certificate lets
hosts attach whose names begin with the tenant's and a slash, and makes, shows and ends that tenant's groups alone.")]
pub(crate) struct Init {
    /// Folder to write to; an authority that is there makes further certificates
    dir: PathBuf,
    /// Switches, and hosts of nobody in particular, by node name
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    node: Vec<String>,
    /// Hosts with a certificate of their own, each as NAME@TENANT
    #[arg(long, value_name = "NAME@TENANT", value_delimiter = ',')]
    host: Vec<String>,
    /// Tenants by name
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    tenant: Vec<String>,
    /// Operators by name, besides admin
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    operator: Vec<String>,
    /// Days for which the certificates are good
    #[arg(long, default_value_t = 365)]
    days: u32,
}

impl Init {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        made.map_err(|error| {
            Failure::Input(format!("expected to make the folder {}, found \"{error}\"", self.dir.display()))
        })?;
        let (authority, is_new) = self.authority()?;
        if is_new {
            self.write("authority.pem", authority.certificate())?;
            self.write("authority-key.pem", authority.key())?;
        }
        let mut wanted = Vec::new();
        if is_new {
            wanted.push(("manager.pem".to_owned(), Subject::Manager));
            wanted.push(("operator-admin.pem".to_owned(), Subject::Operator("admin".into())));
        }
        wanted.extend(self.node.iter().map(|name| (format!("node-{name}.pem"), Subject::Node(name.clone()))));
        for host in &self.host {
            let (node, tenant) = host.split_once('@').ok_or_else(|| {
                Failure::Input(format!("expected NAME@TENANT with --host, found \"{host}\"; append @TENANT"))
            })?;
            let subject = Subject::Host { node: node.into(), tenant: tenant.into() };
            wanted.push((format!("host-{node}.pem"), subject));
        }
        wanted.extend(
            self.tenant.iter().map(|name| (format!("tenant-{name}.pem"), Subject::Tenant(name.clone()))),
        );
        let operators = self
            .operator
            .iter()
            .map(|name| (format!("operator-{name}.pem"), Subject::Operator(name.clone())));
        wanted.extend(operators);
        for (file, subject) in wanted {
            let issued = authority.issue(&subject, self.days).map_err(Failure::input)?;
            self.write(&file, &issued)?;
        }
        Ok(())
    }

    /// The authority of the folder, and whether it is new.
    fn authority(&self) -> Result<(Authority, bool), Failure> {
        let [certificate, key] = ["authority.pem", "authority-key.pem"].map(|file| self.dir.join(file));
        match (read(&certificate)?, read(&key)?) {
            (Some(certificate), Some(key)) => {
                Ok((Authority::load(&certificate, &key).map_err(Failure::input)?, false))
            }
            (None, None) => Ok((Authority::new().map_err(Failure::input)?, true)),
            _ => Err(Failure::Input(format!(
                "expected authority.pem and authority-key.pem in {}, or neither, found one; bring the other back, or choose another folder",
                self.dir.display()
            ))),
        }
    }

    /// Writes a new file, which its owner alone may read, and says so.
    fn write(&self, file: &str, text: &str) -> Result<(), Failure> {
        let path = self.dir.join(file);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        made.and_then(|mut made| made.write_all(text.as_bytes())).map_err(|error| {
            Failure::Input(format!(
                "expected to make {}, found \"{error}\"; a certificate that is there stays: remove it first, or choose another name",
                path.display()
            ))
        })?;
        say!("{}", path.display());
        Ok(())
    }
}

/// What is in a file, if it is there.
fn read(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::Input(format!("expected to read {}, found \"{error}\"", path.display()))),
    }
}

/// `quincunx manager revoke`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx manager revoke tenant/blue --manager 10.0.0.9:4790 --identity certs/operator-admin.pem
  quincunx manager revoke certs/node-leaf1.pem ...            this certificate; another one of that name counts
  quincunx manager revoke tenant/blue --lift ...
  quincunx manager revoke ...                                 lists who is revoked")]
pub(crate) struct Revoke {
    /// tenant/NAME, node/NAME or operator/NAME: all certificates of that name; serial/HEX, or the file with it: that certificate
    #[arg(value_name = "WHO|FILE")]
    who: Option<String>,
    /// Hear it again
    #[arg(long, requires = "who")]
    lift: bool,
    #[command(flatten)]
    manager_options: ManagerOptions,
}

impl Revoke {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let who = match self.who.as_deref() {
            Some(file) if Path::new(file).is_file() => {
                let serial = Credentials::read(Path::new(file)).map_err(Failure::input)?.serial();
                format!("serial/{}", serial.unwrap_or_default())
            }
            who => who.unwrap_or_default().to_owned(),
        };
        let done = self.manager_options.connect()?.revoke(&who, self.lift).map_err(Failure::input)?;
        if self.manager_options.json {
            let (detached, revoked) = (done.detached, done.revoked);
            say!(
                "{}",
                json!({ "schema": 1, "command": "manager revoke", "detached": detached, "revoked": revoked, "kept": done.kept })
            );
            return Ok(());
        }
        if !done.detached.is_empty() {
            say!("detached  {}", done.detached.join(" "));
        }
        say!("revoked   {}", if done.revoked.is_empty() { "nobody".into() } else { done.revoked.join(" ") });
        if !who.is_empty() && !done.kept {
            say!("the manager has no --store: the next one does not know of it");
        }
        Ok(())
    }
}
