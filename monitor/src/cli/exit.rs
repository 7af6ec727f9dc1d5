//! Exit codes, for scripts.

use std::io;
use std::process::ExitCode;

use isobar::agent::{AgentError, OpenError};
use isobar::config::Invalid;
use isobar::record::incident::freeze::FreezeError;
use isobar::record::incident::shelf::ShelfError;
use isobar::record::reader::ReadError;
use isobar::source::OpenError as SourceError;

use super::input::Unreadable;

pub(crate) const HELP: &str = "\
Exit codes: 0 ok, 1 failure, 2 usage, 3 invalid input, 4 not permitted, 5 unsupported kernel,
10 under pressure (status). doctor: 1 if something is absent that isobar works without.
Environment: ISOBAR_LOG sets the level of diagnostics (error, warn, info, debug); NO_COLOR, CLICOLOR
and CLICOLOR_FORCE, unless --color is given.";

/// How a verb ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Ok = 0,
    Failure = 1,
    /// clap ends with it, too.
    Usage = 2,
    InvalidInput = 3,
    NotPermitted = 4,
    UnsupportedKernel = 5,
    UnderPressure = 10,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// The answer is not a document of isobar.
#[derive(Debug, thiserror::Error)]
#[error("the answer of {address} is no isobar snapshot")]
pub(crate) struct InvalidAnswer {
    pub(crate) address: String,
    pub(crate) source: serde_json::Error,
}

/// Invalid input, such as a quantity that does not parse or a reservation that the kubelet refuses.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);

/// Options that do not go with what was found: an agent that answers, a recording.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misused(pub(crate) String);

/// The exit code for an error chain.
pub(crate) fn code_of(error: &anyhow::Error) -> Code {
    let is_denied = |why: &io::Error| why.kind() == io::ErrorKind::PermissionDenied;
    if error.chain().any(|cause| cause.downcast_ref().is_some_and(is_denied)) {
        return Code::NotPermitted;
    }
    for cause in error.chain() {
        if cause.is::<Misused>() {
            return Code::Usage;
        }
        let is_refused = cause.is::<InvalidAnswer>() || cause.is::<Refused>();
        if is_refused || cause.is::<Invalid>() || cause.is::<Unreadable>() {
            return Code::InvalidInput;
        }
        let is_of_shelf = |why: &ShelfError| {
            use ShelfError::{Exists, Full, TooLong, Unknown};
            matches!(why, Unknown(_) | Exists(_) | Full { .. } | TooLong { .. })
        };
        let is_of_file = |why: &FreezeError| {
            use FreezeError::{ManyNames, Name, NoIncident, Read, Shelf, TooLarge};
            // The two that are transparent hide what is in them.
            match why {
                NoIncident(_) | Name(_) | TooLarge | ManyNames(_) => true,
                Read(why) => why.is_invalid_input(),
                Shelf(why) => is_of_shelf(why),
                _ => false,
            }
        };
        if cause.downcast_ref().is_some_and(is_of_shelf)
            || cause.downcast_ref().is_some_and(is_of_file)
        {
            return Code::InvalidInput;
        }
        if cause.downcast_ref::<ReadError>().is_some_and(ReadError::is_invalid_input) {
            return Code::InvalidInput;
        }
        match cause.downcast_ref::<OpenError>() {
            Some(OpenError::Sources(SourceError::NoCgroup2)) => return Code::UnsupportedKernel,
            Some(OpenError::Agent(AgentError::Denied(_))) => return Code::NotPermitted,
            _ => {}
        }
    }
    Code::Failure
}

/// The printed text of an error. Problems of a file have no prefix, so that editors parse them.
pub(crate) fn text_of(error: &anyhow::Error) -> String {
    match error.chain().find_map(|cause| cause.downcast_ref::<Invalid>()) {
        Some(invalid) => invalid.to_string(),
        None => format!("isobar: {error:#}"),
    }
}

/// True if the reader of stdout has closed the pipe.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json =
            cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use anyhow::Context as _;
    use isobar::serve::address::Address;

    use super::*;

    #[test]
    fn code_of_finds_cause_at_any_depth() {
        let port = SocketAddr::from(([127, 0, 0, 1], 80));
        let no_json = serde_json::from_str::<u8>("x").unwrap_err();
        #[rustfmt::skip]
        let table = [
            // error, code
            (anyhow::Error::new(OpenError::Sources(SourceError::NoCgroup2)),     Code::UnsupportedKernel),
            (anyhow::Error::new(OpenError::Agent(AgentError::Denied(port))),    Code::NotPermitted),
            (anyhow::Error::new(OpenError::Agent(AgentError::Taken(Address::Tcp(port)))),     Code::Failure),
            (anyhow::Error::new(InvalidAnswer { address: "a".into(), source: no_json }), Code::InvalidInput),
            (anyhow::Error::new(invalid()),                                     Code::InvalidInput),
            (anyhow::Error::new(ReadError::Empty("r".into())),                  Code::InvalidInput),
            (FreezeError::from(ReadError::Empty("r".into())).into(),            Code::InvalidInput),
            (FreezeError::from(ShelfError::Exists("r".into())).into(),          Code::InvalidInput),
            (denied().into(),                                                   Code::NotPermitted),
            (anyhow::Error::new(Refused("no".into())),                          Code::InvalidInput),
            (anyhow::Error::new(Misused("no".into())),                          Code::Usage),
            (anyhow::anyhow!("anything else"),                                  Code::Failure),
        ];
        for (error, want) in table {
            let text = format!("{error:#}");
            let deeper = Err::<(), _>(error).context("further out").unwrap_err();
            assert_eq!(code_of(&deeper), want, "{text}");
        }
    }

    fn denied() -> ReadError {
        ReadError::Io { path: "r".into(), source: io::ErrorKind::PermissionDenied.into() }
    }

    fn invalid() -> Invalid {
        isobar::config::settings("", "f.yaml", std::path::Path::new("")).unwrap_err()
    }

    #[test]
    fn text_of_invalid_file_has_no_prefix() {
        let deeper = Err::<(), _>(invalid()).context("further out").unwrap_err();
        assert_eq!(text_of(&deeper), "f.yaml:1:1: the file holds no document");
        assert_eq!(text_of(&anyhow::anyhow!("anything else")), "isobar: anything else");
    }

    #[test]
    fn is_broken_pipe_only_for_closed_pipe() {
        let gone = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&anyhow::Error::new(gone).context("printing")));
        assert!(!is_broken_pipe(&anyhow::Error::new(io::Error::from(io::ErrorKind::NotFound))));
    }
}
