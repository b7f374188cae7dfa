//! Downloads that go on where they stopped and are only kept when their checksum is right.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::Agent;
use ureq::http::StatusCode;

use npb_catalogue::Result;
use npb_catalogue::data::{DataFile, sha256_of};

/// Tries per file; each goes on where the one before stopped.
const TRIES: usize = 5;

/// Fetches files over HTTP.
pub(crate) struct Downloader {
    agent: Agent,
    /// Wait before each new try.
    pause: Duration,
}

/// How one try ended.
enum Try {
    Complete,
    /// Worth another try.
    Interrupted(String),
}

impl Downloader {
    pub(crate) fn new(pause: Duration) -> Self {
        let patience = Some(Duration::from_secs(60));
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(patience)
            .timeout_recv_response(patience)
            .timeout_per_read(patience)
            .build();
        Self {
            agent: config.into(),
            pause,
        }
    }

    /// Fetches `file` from `url` to `to`. Bytes arrive in `to` + `.part`, which a later call continues, and are renamed
    /// only when size and checksum are those recorded. `progress` sees the number of bytes there are.
    pub(crate) fn fetch(
        &self,
        url: &str,
        file: &DataFile,
        to: &Path,
        progress: &dyn Fn(u64),
    ) -> Result<()> {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
        }
        let part = part_of(to);
        let mut reason = String::new();
        for attempt in 0..TRIES {
            if attempt > 0 {
                std::thread::sleep(self.pause);
            }
            match self.attempt(url, file, &part, progress)? {
                Try::Complete => {
                    return fs::rename(&part, to)
                        .map_err(|e| format!("{}: {e}", to.display()).into());
                }
                Try::Interrupted(why) => reason = why,
            }
        }
        let message =
            format!("{url}: {reason} ({TRIES} tries); run the same command again to go on");
        Err(message.into())
    }

    fn attempt(
        &self,
        url: &str,
        file: &DataFile,
        part: &Path,
        progress: &dyn Fn(u64),
    ) -> Result<Try> {
        let there = fs::metadata(part).map_or(0, |m| m.len());
        if there < file.bytes
            && let Some(interrupted) = self.receive(url, file, part, there, progress)?
        {
            return Ok(interrupted);
        }
        let found = sha256_of(part)?;
        if found == file.sha256 {
            return Ok(Try::Complete);
        }
        fs::remove_file(part)?;
        if there > 0 {
            // The part that was there may be to blame.
            return Ok(Try::Interrupted(
                "the continued file has another checksum".to_owned(),
            ));
        }
        Err(format!(
            "{url}: served bytes with sha256 {found}, recorded is {}; the file at this address has changed and was not kept",
            file.sha256
        )
        .into())
    }

    /// Receives what is missing after the first `there` bytes; `None` when the part file is complete.
    fn receive(
        &self,
        url: &str,
        file: &DataFile,
        part: &Path,
        there: u64,
        progress: &dyn Fn(u64),
    ) -> Result<Option<Try>> {
        let interrupted = |why: String| Ok(Some(Try::Interrupted(why)));
        let mut request = self.agent.get(url);
        if there > 0 {
            request = request.header("Range", format!("bytes={there}-"));
        }
        let response = match request.call() {
            Ok(response) => response,
            Err(error) => return interrupted(error.to_string()),
        };
        let continues = response
            .headers()
            .get("Content-Range")
            .and_then(|value| value.to_str().ok())
            .is_some_and(|range| range.starts_with(&format!("bytes {there}-")));
        let start = match response.status() {
            StatusCode::OK => 0,
            StatusCode::PARTIAL_CONTENT if continues => there,
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                fs::remove_file(part)?;
                return interrupted("the server does not continue files".to_owned());
            }
            status if status.is_server_error() => return interrupted(format!("answered {status}")),
            status => return Err(format!("{url}: answered {status}").into()),
        };
        let mut out = open_at(part, start)?;
        let body = response.into_body().into_reader();
        // One byte more than recorded tells that the file has changed.
        let received = copy(body.take(file.bytes - start + 1), &mut out, start, progress);
        out.sync_all()?;
        let size = fs::metadata(part)?.len();
        if size > file.bytes {
            fs::remove_file(part)?;
            return Err(format!(
                "{url}: served more than the recorded {} bytes; the file at this address has changed",
                file.bytes
            )
            .into());
        }
        match received {
            Err(why) => interrupted(why),
            Ok(()) if size < file.bytes => {
                interrupted(format!("ended after {size} of {} bytes", file.bytes))
            }
            Ok(()) => Ok(None),
        }
    }
}

fn part_of(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// The file, cut to its first `start` bytes and open at its end.
fn open_at(part: &Path, start: u64) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(part)?;
    file.set_len(start)?;
    Ok(file)
}

/// Copies until the end; what was received before a failure is written.
fn copy(
    mut body: impl Read,
    out: &mut File,
    start: u64,
    progress: &dyn Fn(u64),
) -> std::result::Result<(), String> {
    let mut buffer = vec![0; 1 << 16];
    let mut total = start;
    loop {
        let n = body.read(&mut buffer).map_err(|e| e.to_string())?;
        if n == 0 {
            return Ok(());
        }
        out.write_all(&buffer[..n]).map_err(|e| e.to_string())?;
        total += n as u64;
        progress(total);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::{TcpListener, TcpStream};
    use std::sync::{Arc, Mutex};
    use std::thread;

    use npb_catalogue::Scratch;
    use npb_catalogue::data::sha256_of_bytes;

    use super::*;

    /// What a server does with each request.
    #[derive(Clone, Copy)]
    pub(crate) enum Manner {
        /// Serves the file, or the part asked for.
        Ranges,
        /// Ignores `Range`.
        Whole,
        /// Closes the connection half-way through what it announced.
        BreaksOff,
        /// Breaks off the first request only.
        BreaksOffOnce,
        Status(&'static str),
    }

    /// A server on localhost that remembers the `Range` of each request.
    pub(crate) struct Server {
        pub(crate) url: String,
        ranges: Arc<Mutex<Vec<Option<String>>>>,
    }

    impl Server {
        pub(crate) fn start(content: Vec<u8>, manner: Manner) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/set/file.data", listener.local_addr().unwrap());
            let ranges = Arc::new(Mutex::new(Vec::new()));
            let log = Arc::clone(&ranges);
            thread::spawn(move || {
                for stream in listener.incoming() {
                    answer(stream.unwrap(), &content, manner, &log);
                }
            });
            Self { url, ranges }
        }

        pub(crate) fn ranges(&self) -> Vec<Option<String>> {
            self.ranges.lock().unwrap().clone()
        }
    }

    fn answer(
        mut stream: TcpStream,
        content: &[u8],
        manner: Manner,
        log: &Mutex<Vec<Option<String>>>,
    ) {
        let mut range = None;
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap() == 0 || line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("range:") {
                range = Some(value.trim().to_owned());
            }
        }
        let first = {
            let mut log = log.lock().unwrap();
            log.push(range.clone());
            log.len() == 1
        };
        let from = range
            .as_deref()
            .and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
        let (status, from) = match manner {
            Manner::Status(status) => (status, None),
            Manner::Whole => ("200 OK", None),
            _ if from.is_some() => ("206 Partial Content", from),
            _ => ("200 OK", None),
        };
        let body = &content[from.unwrap_or(0)..];
        let mut head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n",
            body.len()
        );
        if let Some(from) = from {
            let (last, size) = (content.len() - 1, content.len());
            head += &format!("Content-Range: bytes {from}-{last}/{size}\r\n");
        }
        let sent = match manner {
            Manner::BreaksOff => body.len() / 2,
            Manner::BreaksOffOnce if first => body.len() / 2,
            _ => body.len(),
        };
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        // The client may have seen enough.
        drop(stream.write_all(&body[..sent]));
    }

    fn content() -> Vec<u8> {
        (0..200_000_u32).map(|i| (i * 7 % 251) as u8).collect()
    }

    fn recorded(content: &[u8]) -> DataFile {
        DataFile {
            path: "file.data".to_owned(),
            bytes: content.len() as u64,
            sha256: sha256_of_bytes(content),
            url: None,
            optional: false,
            instead: None,
        }
    }

    fn fetch(server: &Server, file: &DataFile, to: &Path) -> Result<()> {
        Downloader::new(Duration::ZERO).fetch(&server.url, file, to, &|_| {})
    }

    #[test]
    fn a_file_arrives_whole() {
        let scratch = Scratch::new("download-whole");
        let server = Server::start(content(), Manner::Ranges);
        let to = scratch.path("set/file.data");
        fetch(&server, &recorded(&content()), &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), content());
        assert!(!part_of(&to).exists());
        assert_eq!(server.ranges(), [None]);
    }

    #[test]
    fn a_broken_connection_is_continued_where_it_broke() {
        let scratch = Scratch::new("download-broken");
        let server = Server::start(content(), Manner::BreaksOffOnce);
        let to = scratch.path("file.data");
        fetch(&server, &recorded(&content()), &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), content());
        let ranges = server.ranges();
        assert_eq!(ranges.len(), 2);
        let from: usize = ranges[1]
            .as_deref()
            .unwrap()
            .trim_start_matches("bytes=")
            .trim_end_matches('-')
            .parse()
            .unwrap();
        assert!(from > 0 && from <= content().len() / 2, "{from}");
    }

    #[test]
    fn a_stopped_download_is_continued_by_the_next_command() {
        let scratch = Scratch::new("download-resume");
        let to = scratch.path("file.data");
        fs::write(part_of(&to), &content()[..70_001]).unwrap();
        let server = Server::start(content(), Manner::Ranges);
        fetch(&server, &recorded(&content()), &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), content());
        assert_eq!(server.ranges(), [Some("bytes=70001-".to_owned())]);
    }

    #[test]
    fn a_server_without_ranges_starts_over() {
        let scratch = Scratch::new("download-norange");
        let to = scratch.path("file.data");
        fs::write(part_of(&to), &content()[..70_001]).unwrap();
        let server = Server::start(content(), Manner::Whole);
        fetch(&server, &recorded(&content()), &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), content());
    }

    #[test]
    fn a_part_of_another_file_is_thrown_away() {
        let scratch = Scratch::new("download-foreign-part");
        let to = scratch.path("file.data");
        fs::write(part_of(&to), vec![1; 70_001]).unwrap();
        let server = Server::start(content(), Manner::Ranges);
        fetch(&server, &recorded(&content()), &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), content());
        assert_eq!(server.ranges(), [Some("bytes=70001-".to_owned()), None]);
    }

    #[test]
    fn a_complete_part_is_only_checked() {
        let scratch = Scratch::new("download-complete-part");
        let to = scratch.path("file.data");
        fs::write(part_of(&to), content()).unwrap();
        let server = Server::start(content(), Manner::Status("500 Internal Server Error"));
        fetch(&server, &recorded(&content()), &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), content());
        assert!(server.ranges().is_empty());
    }

    /// The error's text; nothing was kept at the target.
    fn refused(name: &str, served: Vec<u8>, manner: Manner) -> (String, Vec<Option<String>>) {
        let scratch = Scratch::new(name);
        let to = scratch.path("file.data");
        let server = Server::start(served, manner);
        let error = fetch(&server, &recorded(&content()), &to).unwrap_err();
        assert!(!to.exists());
        (error.to_string(), server.ranges())
    }

    #[test]
    fn another_checksum_is_refused() {
        let mut other = content();
        other[1234] ^= 1;
        let (error, requests) = refused("download-checksum", other, Manner::Ranges);
        assert!(error.contains(&sha256_of_bytes(&content())), "{error}");
        assert!(error.contains("has changed"), "{error}");
        assert_eq!(requests.len(), 1);
    }

    #[test]
    fn a_longer_file_is_refused() {
        let longer = [content(), vec![0; 100_000]].concat();
        let (error, _) = refused("download-longer", longer, Manner::Ranges);
        assert!(
            error.contains("more than the recorded 200000 bytes"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_file_is_named_and_not_asked_for_again() {
        let (error, requests) = refused("download-404", content(), Manner::Status("404 Not Found"));
        assert!(
            error.contains("404") && error.contains("/set/file.data"),
            "{error}"
        );
        assert_eq!(requests.len(), 1);
    }

    #[test]
    fn a_server_that_never_delivers_is_given_up() {
        let (error, requests) = refused("download-503", content(), Manner::Status("503 Busy"));
        assert!(
            error.contains("503") && error.contains("run the same command again"),
            "{error}"
        );
        assert_eq!(requests.len(), TRIES);
    }

    #[test]
    fn what_a_broken_connection_delivered_is_kept() {
        let scratch = Scratch::new("download-keeps");
        let to = scratch.path("file.data");
        let server = Server::start(content(), Manner::BreaksOff);
        fetch(&server, &recorded(&content()), &to).unwrap_err();
        let kept = fs::read(part_of(&to)).unwrap();
        assert!(kept.len() > content().len() / 2);
        assert!(content().starts_with(&kept));
        let server = Server::start(content(), Manner::Ranges);
        fetch(&server, &recorded(&content()), &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), content());
    }
}
