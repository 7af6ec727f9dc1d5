//! Debian packages, of other releases than this machine's too, unpacked and never installed.
//! The mirror is the one that this machine is configured for; apt's own state is not touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::cache::Cache;
use isobar_lab::shell::{found, quietly, step};

/// Where kernels come from: the release, and whether it is on the security mirror.
const SUITES: [(&str, bool); 3] =
    [("bookworm", false), ("bookworm-security", true), ("trixie-backports", false)];

/// For so long the lists of packages are not fetched anew.
const FRESH: Duration = Duration::from_secs(24 * 3_600);

/// Written once all lists were fetched.
const FETCHED: &str = "fetched";

/// The architecture of virtual machines, as Debian names it.
pub(super) const GUESTS: &str = "amd64";

/// Where `package` for machines of the architecture `arch` lies unpacked: the entry `key` of the
/// cache. The cache is held only while it is looked at or filled.
pub(super) fn unpacked(key: &str, package: &str, arch: &'static str) -> Result<PathBuf> {
    let cache = Cache::open()?;
    if let Some(kept) = cache.kept(key) {
        return Ok(kept);
    }
    let archive = Archive::open_for(&cache, arch)?;
    let package = [package.to_owned()];
    if archive.names(&format!("^{}$", package[0]))? != package {
        archive.update()?;
    }
    step(&package[0], || cache.keep(key, |dir| archive.unpack(&package, dir)))
}

/// apt with lists of its own.
pub(super) struct Archive {
    dir: PathBuf,
    /// As Debian names it.
    arch: &'static str,
}

impl Archive {
    /// Packages for virtual machines.
    pub(super) fn open(cache: &Cache) -> Result<Self> {
        Self::open_for(cache, GUESTS)
    }

    /// Packages for machines of the architecture `arch`. Makes the lists' directory, and the lists
    /// if there are none yet.
    pub(super) fn open_for(cache: &Cache, arch: &'static str) -> Result<Self> {
        for program in ["apt-get", "apt-cache", "dpkg-deb"] {
            if found(program).is_none() {
                bail!(
                    "what is fetched are Debian packages, and there is no {program} here for that"
                );
            }
        }
        let dir = if arch == GUESTS { "apt".into() } else { format!("apt-{arch}") };
        let archive = Self::at(cache.root().join(dir), arch)?;
        if archive.has_old_lists() {
            // Without a mirror what is kept may still do.
            let _ = archive.update();
        }
        Ok(archive)
    }

    /// The mirror may no longer have what lists of an earlier day name.
    fn has_old_lists(&self) -> bool {
        let fetched = fs::metadata(self.dir.join(FETCHED)).and_then(|mark| mark.modified());
        match fetched {
            Ok(at) => at.elapsed().is_ok_and(|age| age > FRESH),
            Err(_) => self.dir.join("sources.list").exists(),
        }
    }

    fn at(dir: PathBuf, arch: &'static str) -> Result<Self> {
        let archive = Self { dir, arch };
        for dir in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(archive.dir.join(dir))?;
        }
        fs::write(archive.dir.join("status"), "")?;
        Ok(archive)
    }

    /// Asks the mirror what there is.
    pub(super) fn update(&self) -> Result<()> {
        let list = sources_list(&configured()?, self.arch)?;
        fs::write(self.dir.join("sources.list"), list)?;
        // Without this apt keeps old lists for those it cannot fetch, and says that all is well.
        let mut update = self.apt("apt-get");
        update.args(["update", "-o", "APT::Update::Error-Mode=any"]);
        step("lists of Debian's packages", || quietly(&mut update))?;
        Ok(fs::write(self.dir.join(FETCHED), "")?)
    }

    /// The names of the packages that match `pattern`, a regular expression.
    pub(super) fn names(&self, pattern: &str) -> Result<Vec<String>> {
        let found = quietly(self.apt("apt-cache").args(["search", "--names-only", pattern]))?;
        Ok(found.lines().filter_map(|l| Some(l.split_once(" - ")?.0.to_owned())).collect())
    }

    /// Downloads `packages` and unpacks them below `into`.
    pub(super) fn unpack(&self, packages: &[String], into: &Path) -> Result<()> {
        let debs = into.join("debs");
        fs::create_dir_all(&debs)?;
        quietly(self.apt("apt-get").arg("download").args(packages).current_dir(&debs))?;
        for deb in fs::read_dir(&debs)? {
            quietly(Command::new("dpkg-deb").arg("-x").arg(deb?.path()).arg(into))?;
        }
        fs::remove_dir_all(debs)?;
        Ok(())
    }

    /// The same with all that they depend on, as on a machine on which nothing is installed.
    pub(super) fn unpack_with_needs(&self, packages: &[&str], into: &Path) -> Result<()> {
        let mut simulated = self.apt("apt-get");
        simulated.args(["install", "--simulate", "--no-install-recommends"]).args(packages);
        let plan = quietly(&mut simulated)?;
        // `Inst NAME (VERSION ...)`
        let name = |line: &str| Some(line.strip_prefix("Inst ")?.split(' ').next()?.to_owned());
        let all: Vec<String> = plan.lines().filter_map(name).collect();
        self.unpack(&all, into)
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (key, dir) in [("SourceList", "sources.list"), ("SourceParts", "none")] {
            command.arg("-o").arg(format!("Dir::Etc::{key}={}", self.dir.join(dir).display()));
        }
        for (key, dir) in [("State", "state"), ("Cache", "cache")] {
            command.arg("-o").arg(format!("Dir::{key}={}", self.dir.join(dir).display()));
        }
        // The user _apt may not enter somebody's cache directory.
        command.args(["-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none"]);
        // What this machine has installed is not what the mirror offers: apt-cache would name an
        // installed package although there are no lists yet, and nothing could be fetched then.
        command.arg("-o").arg(format!("Dir::State::status={}", self.dir.join("status").display()));
        command.args(["-o", &format!("APT::Architecture={}", self.arch)]);
        command.args(["-o", &format!("APT::Architectures::={}", self.arch)]);
        command
    }
}

/// One configured source of packages.
#[derive(Debug, Default, Clone, PartialEq)]
struct Source {
    uri: String,
    suites: Vec<String>,
    components: Vec<String>,
    /// A file; keys written into the source itself are left to apt's trusted ones.
    signed_by: Option<String>,
}

/// All sources that apt is configured for.
fn configured() -> Result<Vec<Source>> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(parts) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(parts.flatten().map(|entry| entry.path()));
    }
    files.sort();
    let mut sources = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        match file.extension().and_then(|e| e.to_str()) {
            Some("list") => sources.extend(text.lines().filter_map(one_line)),
            Some("sources") => sources.extend(paragraphs(&text)),
            _ => {}
        }
    }
    Ok(sources)
}

/// `deb [signed-by=..] URI SUITE COMPONENT..`, as sources.list(5) has it.
fn one_line(line: &str) -> Option<Source> {
    let rest = line.split('#').next()?.trim().strip_prefix("deb ")?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    let signed_by = options.split_whitespace().find_map(|o| o.strip_prefix("signed-by="));
    Some(Source {
        uri: words.next()?,
        suites: vec![words.next()?],
        components: words.collect(),
        signed_by: signed_by.map(str::to_owned),
    })
}

/// The deb822 form: paragraphs of `Key: value`, where a line that begins with a blank goes on.
fn paragraphs(text: &str) -> Vec<Source> {
    let text = text.lines().filter(|l| !l.starts_with('#')).collect::<Vec<_>>().join("\n");
    text.split("\n\n").flat_map(paragraph).collect()
}

fn paragraph(text: &str) -> Vec<Source> {
    let text = text.replace("\n ", " ").replace("\n\t", " ");
    let words = |key: &str| -> Vec<String> {
        let line = text.lines().find_map(|l| {
            let (k, value) = l.split_once(':')?;
            k.eq_ignore_ascii_case(key).then_some(value)
        });
        line.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    if !words("Types").contains(&"deb".to_owned()) || words("Enabled") == ["no"] {
        return Vec::new();
    }
    let signed_by = words("Signed-By").into_iter().next().filter(|key| key.starts_with('/'));
    let source = Source {
        suites: words("Suites"),
        components: words("Components"),
        signed_by,
        ..Source::default()
    };
    words("URIs").into_iter().map(|uri| Source { uri, ..source.clone() }).collect()
}

/// Our own list: the suites that kernels come from, on the mirrors of `sources`.
fn sources_list(sources: &[Source], arch: &str) -> Result<String> {
    const RELEASES: [&str; 9] = [
        "bookworm",
        "trixie",
        "forky",
        "duke",
        "stable",
        "oldstable",
        "testing",
        "sid",
        "unstable",
    ];
    let mirror = |suffix: &str| {
        sources.iter().find(|source| {
            // Other vendors name their suites after Debian's releases, but have no `main`.
            let ours = |suite: &String| {
                suite.strip_suffix(suffix).is_some_and(|name| RELEASES.contains(&name))
            };
            source.suites.iter().any(ours) && source.components.contains(&"main".to_owned())
        })
    };
    let main = mirror("").context(
        "kernels and peers are fetched from the Debian mirror that apt is configured for: there is none",
    )?;
    let security = match mirror("-security") {
        Some(source) => source.clone(),
        // Every Debian mirror has both trees side by side.
        None => {
            Source { uri: format!("{}-security", main.uri.trim_end_matches('/')), ..main.clone() }
        }
    };
    let line = |(suite, is_security): (&str, bool)| {
        let from = if is_security { &security } else { main };
        let signed = from.signed_by.as_deref().map(|key| format!(" signed-by={key}"));
        let signed = signed.unwrap_or_default();
        format!("deb [arch={arch} target=Packages{signed}] {} {suite} main\n", from.uri)
    };
    Ok(SUITES.into_iter().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_source_mean_the_same() {
        let want = Source {
            uri: "http://mirror/debian".into(),
            suites: vec!["bookworm".into()],
            components: vec!["main".into(), "contrib".into()],
            signed_by: Some("/k.gpg".into()),
        };
        let line = "deb [arch=amd64 signed-by=/k.gpg] http://mirror/debian bookworm main contrib";
        assert_eq!(one_line(line), Some(want.clone()));
        let text = "# http://elsewhere\nTypes: deb deb-src\nURIs: http://mirror/debian\n\
                    Suites: bookworm\nComponents: main\n contrib\nSigned-By: /k.gpg\n";
        assert_eq!(paragraphs(text), [want]);
    }

    #[test]
    fn what_is_no_source_of_programs_gives_none() {
        let table =
            ["", "# deb http://m/debian bookworm main", "deb-src http://m/ sid main", "deb"];
        for line in table {
            assert_eq!(one_line(line), None, "{line:?}");
        }
        let off = "Types: deb\nURIs: http://m\nSuites: sid\nComponents: main\nEnabled: no\n";
        assert_eq!(paragraphs(off), []);
    }

    #[test]
    fn archive_names_nothing_that_is_merely_installed() {
        if found("apt-cache").is_none() {
            println!("skipped: there is no apt-cache here");
            return;
        }
        let root = std::env::temp_dir().join(format!("isobar-archive-{}", std::process::id()));
        let archive = Archive::at(root.join("apt"), GUESTS).unwrap();
        assert_eq!(archive.names("^(apt|dpkg|busybox-static)$").unwrap(), [""; 0]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn has_old_lists_after_a_day() {
        let root = std::env::temp_dir().join(format!("isobar-lists-{}", std::process::id()));
        let archive = Archive::at(root.clone(), GUESTS).unwrap();
        assert!(
            !archive.has_old_lists(),
            "none are not old: they are fetched when they are needed"
        );
        fs::write(root.join("sources.list"), "").unwrap();
        assert!(archive.has_old_lists(), "the last time they could not be fetched");
        let list = fs::File::create(root.join(FETCHED)).unwrap();
        let now = list.metadata().unwrap().modified().unwrap();
        let hour = Duration::from_secs(3_600);
        #[rustfmt::skip]
        let table = [
            // hours since they were fetched, old
            (0,  false),
            (23, false),
            (25, true),
        ];
        for (hours, want) in table {
            list.set_modified(now - hour * hours).unwrap();
            assert_eq!(archive.has_old_lists(), want, "{hours} h");
        }
        list.set_modified(now + hour * 48).unwrap();
        assert!(!archive.has_old_lists(), "by a clock that was set back since");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_mirror_is_the_configured_one_whatever_its_release() {
        let vendor = one_line("deb http://vendor/debian bookworm stable").unwrap();
        let main = one_line("deb http://mirror/debian/ trixie main").unwrap();
        let list = sources_list(&[vendor.clone(), main], GUESTS).unwrap();
        assert_eq!(
            list,
            "deb [arch=amd64 target=Packages] http://mirror/debian/ bookworm main\n\
             deb [arch=amd64 target=Packages] http://mirror/debian-security bookworm-security main\n\
             deb [arch=amd64 target=Packages] http://mirror/debian/ trixie-backports main\n"
        );
        assert!(sources_list(&[vendor], GUESTS).is_err());
    }
}
