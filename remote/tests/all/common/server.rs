//! A web server with faults, for tests.
//!
//! It serves objects with ranges, ETags and If-Match, over HTTP/1.1 with keep-alive. A fault of the
//! queue is spent on the next request for data. It is the origin and the fault proxy in one: what a
//! client can meet is the same.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A fault of one request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// This status, with headers.
    Status(u16, &'static str),
    /// This status and body.
    Answer(u16, &'static str),
    /// The same, and the connection closes after half of the body.
    HalfAnswer(u16, &'static str),
    /// The connection is closed without an answer.
    Reset,
    /// The answer begins, and so many bytes of its body follow before the connection closes.
    Truncated(usize),
    /// The body has fewer bytes than were asked for, and its length says so.
    Short,
    /// The range that is answered begins one byte later than asked.
    WrongRange,
    /// The answer is the whole object with status 200.
    Whole,
    /// So long passes before the answer.
    Late(Duration),
    /// So long passes after each byte of the body.
    Slow(Duration),
    /// There is never an answer.
    Silent,
}

/// Objects without an ETag have no time of change either: they have no version at all.
const LAST_MODIFIED: &str = "Last-Modified: Fri, 01 Jan 2021 00:00:00 GMT\r\n";

#[derive(Default)]
struct Table {
    objects: HashMap<String, (Vec<u8>, String)>,
    faults: VecDeque<Fault>,
    /// Method, target and headers of each request.
    requests: Vec<String>,
}

/// A server that runs until it is dropped.
pub struct Server {
    pub address: String,
    table: Arc<Mutex<Table>>,
    pub ignores_ranges: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let table = Arc::new(Mutex::new(Table::default()));
        let ignores_ranges = Arc::new(AtomicBool::new(false));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, ignores, ends) = (table.clone(), ignores_ranges.clone(), stop.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let (table, ignores) = (shared.clone(), ignores.clone());
                let Ok(stream) = stream else { continue };
                std::thread::spawn(move || serve(stream, &table, &ignores));
            }
        });
        Self { address, table, ignores_ranges, stop }
    }

    pub fn put(&self, path: &str, bytes: &[u8], etag: &str) {
        let mut table = self.table.lock().unwrap();
        table.objects.insert(path.to_owned(), (bytes.to_vec(), etag.to_owned()));
    }

    pub fn fail(&self, faults: &[Fault]) {
        self.table.lock().unwrap().faults.extend(faults.iter().cloned());
    }

    pub fn requests(&self) -> Vec<String> {
        self.table.lock().unwrap().requests.clone()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.address);
    }
}

struct Request {
    is_head: bool,
    /// Bytes of the body, which is not looked at.
    body: u64,
    target: String,
    range: Option<String>,
    if_match: Option<String>,
    text: String,
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut text = String::new();
    loop {
        let before = text.len();
        if reader.read_line(&mut text).ok()? == 0 {
            return None;
        }
        if text[before..].trim().is_empty() {
            break;
        }
    }
    let header = |name: &str| {
        text.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let mut words = text.split(' ');
    let is_head = words.next()? == "HEAD";
    let target = words.next()?.to_owned();
    let (range, if_match) = (header("range"), header("if-match"));
    let body = header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    Some(Request { is_head, body, target, range, if_match, text: text.clone() })
}

fn serve(stream: TcpStream, table: &Mutex<Table>, ignores_ranges: &AtomicBool) {
    let Ok(mut output) = stream.try_clone() else { return };
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader) {
        let _ = std::io::copy(&mut reader.by_ref().take(request.body), &mut std::io::sink());
        let path = decoded(request.target.split('?').next().unwrap());
        let (object, fault) = {
            let mut table = table.lock().unwrap();
            table.requests.push(request.text.clone());
            (table.objects.get(&path).cloned(), table.faults.pop_front())
        };
        let ignores = ignores_ranges.load(Ordering::Relaxed);
        if answer(&mut output, &request, object, fault, ignores).is_none() {
            let _ = output.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// A path without its percent signs.
fn decoded(path: &str) -> String {
    let mut parts = path.split('%');
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}

fn plain(output: &mut TcpStream, status: u16, headers: &str, body: &str) -> Option<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n{headers}\r\n{body}");
    output.write_all(head.as_bytes()).ok()
}

/// The first byte and the end of a range of `size` bytes.
fn range_of(text: &str, size: usize) -> Option<(usize, usize)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    if first.is_empty() {
        let count: usize = last.parse().ok()?;
        return (size > 0).then(|| (size - count.min(size), size));
    }
    let first = first.parse().ok()?;
    let end = last.parse().map_or(size, |last: usize| (last + 1).min(size));
    (first < end).then_some((first, end))
}

fn answer(
    output: &mut TcpStream,
    request: &Request,
    object: Option<(Vec<u8>, String)>,
    fault: Option<Fault>,
    ignores_ranges: bool,
) -> Option<()> {
    match &fault {
        Some(Fault::Status(status, headers)) => {
            let body = if request.is_head { "" } else { "<Error><Code>Planned</Code></Error>" };
            return plain(output, *status, headers, body);
        }
        Some(Fault::Answer(status, body)) => {
            return plain(output, *status, "", if request.is_head { "" } else { body });
        }
        Some(Fault::HalfAnswer(status, body)) => {
            let length = body.len();
            let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n\r\n");
            output.write_all(head.as_bytes()).ok()?;
            output.write_all(&body.as_bytes()[..length / 2]).ok()?;
            return None;
        }
        Some(Fault::Reset) => return None,
        Some(Fault::Late(time)) => std::thread::sleep(*time),
        Some(Fault::Silent) => loop {
            std::thread::sleep(Duration::from_secs(60));
        },
        _ => {}
    }
    let Some((bytes, etag)) = object else { return plain(output, 404, "", "") };
    if request.if_match.as_ref().is_some_and(|wanted| *wanted != etag) {
        return plain(output, 412, "", "");
    }
    let etag = if etag.is_empty() { String::new() } else { format!("ETag: {etag}\r\n") };
    let ignores = ignores_ranges || matches!(fault, Some(Fault::Whole));
    let range = request.range.as_ref().filter(|_| !ignores);
    let (status, first, end, more) = match range {
        None => (200, 0, bytes.len(), String::new()),
        Some(text) => {
            let Some((first, end)) = range_of(text, bytes.len()) else {
                return plain(output, 416, "", "");
            };
            let shift = usize::from(matches!(fault, Some(Fault::WrongRange)));
            let (from, to) = (first + shift, end - 1 + shift);
            let more = format!("Content-Range: bytes {from}-{to}/{}\r\n", bytes.len());
            (206, first, end, more)
        }
    };
    let body = &bytes[first..end];
    let body = if matches!(fault, Some(Fault::Short)) { &body[..body.len() / 2] } else { body };
    let length = body.len();
    let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n{etag}{more}");
    let head = format!("{head}{}\r\n", if etag.is_empty() { "" } else { LAST_MODIFIED });
    output.write_all(head.as_bytes()).ok()?;
    if request.is_head {
        return Some(());
    }
    match fault {
        Some(Fault::Truncated(count)) => {
            output.write_all(&body[..count.min(length)]).ok()?;
            None
        }
        Some(Fault::Slow(time)) => {
            for byte in body {
                output.write_all(&[*byte]).ok()?;
                std::thread::sleep(time);
            }
            Some(())
        }
        _ => output.write_all(body).ok(),
    }
}
