//! Sockets between the processes of a node: a consumer finds an owner by them, and each notices the
//! other's end.
//!
//! In: a name. Out: messages with descriptors; the process and the user at the other end, as the
//! kernel knows them. A name without '/' is an abstract one of this user, which ends with its
//! owner; with '/' it is a path. A path has an abstract name, too, which is held as long as the
//! owner lives. So a socket file that a dead owner left can be replaced by one process alone.

use crate::base::cache::{hash_bytes, hash_words};
use crate::base::text::Text;
use crate::os::{Errno, FileKind, FileStat, checked, close, stat_path, system_call};
use arrayvec::ArrayVec;
use core::mem::{MaybeUninit, offset_of};
use core::ptr;

/// Most descriptors of a message.
pub const DESCRIPTORS_MAX: usize = 4;

/// Descriptors that a message brought.
pub type Descriptors = ArrayVec<i32, DESCRIPTORS_MAX>;

/// The process at the other end of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its process; 0 if this one does not see it.
    pub process: i32,
    /// Its user.
    pub user: u32,
}

impl Peer {
    /// Before any process has connected.
    pub const NONE: Peer = Peer { process: -1, user: 0 };
}

impl core::fmt::Display for Peer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.process {
            0 => write!(f, "a process of another PID namespace"),
            process => write!(f, "process {process}"),
        }
    }
}

/// The address of a socket.
#[derive(Clone, Copy)]
pub struct Address {
    name: libc::sockaddr_un,
    bytes: usize,
}

impl Address {
    fn new(path: &[u8]) -> Option<Address> {
        let mut name = libc::sockaddr_un { sun_family: libc::AF_UNIX as _, sun_path: [0; 108] };
        if path.len() >= name.sun_path.len() {
            return None;
        }
        for (target, byte) in name.sun_path.iter_mut().zip(path) {
            *target = *byte as _;
        }
        Some(Address { name, bytes: offset_of!(libc::sockaddr_un, sun_path) + path.len() })
    }

    /// The abstract address of a name of this user.
    fn of_user(name: &str) -> Option<Address> {
        let mut text = Text::<128>::new();
        write!(text, "\0wavetrain.{}.{name}", user());
        if text.is_cut() { None } else { Address::new(text.as_bytes()) }
    }

    /// The address of a name or a path.
    pub fn of(name: &str) -> Option<Address> {
        if !name.contains('/') {
            return Address::of_user(name);
        }
        let address = Address::new(name.as_bytes())?;
        // With the NUL.
        Some(Address { bytes: address.bytes + 1, ..address })
    }

    /// The abstract address of a path: by its folder, whichever path leads there, and its last
    /// part.
    fn beside(path: &str) -> Result<Option<Address>, Errno> {
        let (folder, last) = path.rsplit_once('/').unwrap_or((".", path));
        let mut folder_nul = Text::<128>::new();
        folder_nul.push_str(folder);
        folder_nul.push_str(if folder.is_empty() { "/" } else { "" });
        let FileStat { device, inode, .. } = stat_path(folder_nul.as_bytes_nul())?;
        let mut name = Text::<32>::new();
        write!(name, "{:x}", hash_words(&[device, inode, hash_bytes(last.as_bytes())]));
        Ok(Address::of_user(name.as_str()))
    }
}

/// The kind of a thing that lies at a path and is not a socket; None of a name without '/'.
pub fn other_at(name: &str) -> Option<FileKind> {
    let mut path = Text::<128>::new();
    path.push_str(name);
    let found = name.contains('/').then(|| stat_path(path.as_bytes_nul()).ok())??;
    (found.kind != FileKind::SOCKET).then_some(found.kind)
}

/// The user that this process acts as.
pub fn user() -> u32 {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() }
}

fn new_socket() -> Result<i32, Errno> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket has no preconditions.
    checked(unsafe { libc::socket(libc::AF_UNIX, kind, 0) }.into()).map(|fd| fd as i32)
}

/// A socket for which `make` was called with the address; an error closes it.
fn with_address(
    address: &Address,
    make: unsafe extern "C" fn(i32, *const libc::sockaddr, libc::socklen_t) -> i32,
) -> Result<i32, Errno> {
    let fd = new_socket()?;
    // SAFETY: the address has so many bytes, and both functions only read them.
    let made = unsafe { make(fd, (&raw const address.name).cast(), address.bytes as u32) };
    checked(made.into()).inspect_err(|_| close(fd))?;
    Ok(fd)
}

/// The sockets of an owner: the one that consumers connect to, and the one that holds a path.
#[derive(Clone, Copy, Debug)]
pub struct Listening {
    /// Consumers connect to it.
    pub fd: i32,
    holder: Option<i32>,
}

/// Takes a name; EADDRINUSE if a process has it.
pub fn listen(name: &str) -> Result<Listening, Errno> {
    let long = Errno(libc::ENAMETOOLONG);
    let address = Address::of(name).ok_or(long)?;
    let holder = match name.contains('/') {
        false => None,
        true => Some(hold_path(name, Address::beside(name)?.ok_or(long)?)?),
    };
    let opened = with_address(&address, libc::bind).and_then(|fd| {
        // SAFETY: listen touches no memory.
        let heard = checked(unsafe { libc::listen(fd, 128) }.into());
        heard.map(|_| fd).inspect_err(|_| close(fd))
    });
    match opened {
        Ok(fd) => Ok(Listening { fd, holder }),
        Err(errno) => {
            holder.into_iter().for_each(close);
            Err(errno)
        }
    }
}

/// Takes the abstract name of a path, and then removes the file that a dead owner left.
fn hold_path(path: &str, beside: Address) -> Result<i32, Errno> {
    let holder = with_address(&beside, libc::bind)?;
    remove_socket(path);
    Ok(holder)
}

/// Removes the socket at a path; nothing else that lies there.
fn remove_socket(path: &str) {
    let mut path_nul = Text::<128>::new();
    path_nul.push_str(path);
    let is_socket =
        stat_path(path_nul.as_bytes_nul()).is_ok_and(|found| found.kind == super::FileKind::SOCKET);
    if is_socket {
        // SAFETY: the path ends with a NUL.
        unsafe { libc::unlink(path_nul.as_bytes_nul().as_ptr().cast()) };
    }
}

impl Listening {
    /// Gives the name up, and removes the file of a path.
    pub fn end(&self, name: &str) {
        if self.holder.is_some() {
            remove_socket(name);
        }
        close(self.fd);
        self.holder.into_iter().for_each(close);
    }
}

/// Connects to the owner of a name.
pub fn connect(name: &str) -> Result<i32, Errno> {
    let address = Address::of(name).ok_or(Errno(libc::ENAMETOOLONG))?;
    with_address(&address, libc::connect)
}

/// The next connection; EAGAIN: there is none.
pub fn accept(fd: i32) -> Result<i32, Errno> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no address is asked for, so nothing is written.
    let accepted = unsafe { libc::accept4(fd, ptr::null_mut(), ptr::null_mut(), flags) };
    checked(accepted.into()).map(|fd| fd as i32)
}

/// An option of a socket, such as its other end, as `size_of::<T>()` bytes of integers.
fn option<T>(fd: i32, name: i32) -> Result<T, Errno> {
    let mut found = MaybeUninit::<T>::zeroed();
    let mut bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most so many bytes of the value.
    let asked = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, name, found.as_mut_ptr().cast(), &mut bytes)
    };
    checked(asked.into())?;
    // SAFETY: all bytes were zeroed, and zeroes are integers.
    Ok(unsafe { found.assume_init() })
}

/// The process at the other end.
pub fn peer(fd: i32) -> Result<Peer, Errno> {
    let found = option::<libc::ucred>(fd, libc::SO_PEERCRED)?;
    Ok(Peer { process: found.pid, user: found.uid })
}

/// A descriptor that can be read once the process at the other end has ended; the socket may stay
/// open then, in a forked child. Linux before 6.5 makes one by the number of the process, which a
/// process of another PID namespace does not have here. None: the kernel makes none.
pub fn watch_peer(fd: i32, peer: Peer) -> Option<i32> {
    option::<i32>(fd, libc::SO_PEERPIDFD).ok().or_else(|| watch_process(peer.process))
}

fn watch_process(process: i32) -> Option<i32> {
    let arguments = [usize::try_from(process).ok().filter(|process| *process > 0)?, 0, 0, 0, 0];
    // SAFETY: the call touches no memory.
    unsafe { system_call(libc::SYS_pidfd_open, arguments) }.ok().map(|fd| fd as i32)
}

/// Whether no process has that number any more.
pub fn has_ended(process: i32) -> bool {
    // SAFETY: the call touches no memory, and signal 0 is none.
    process > 0 && checked(unsafe { libc::kill(process, 0) }.into()) == Err(Errno(libc::ESRCH))
}

/// Room for the header and the descriptors of a control message.
#[repr(C, align(16))]
struct Control([u8; 64]);

const fn control_bytes(descriptors: usize) -> usize {
    // SAFETY: a sum of sizes.
    unsafe { libc::CMSG_SPACE((descriptors * size_of::<i32>()) as u32) as usize }
}

const _: () = assert!(control_bytes(DESCRIPTORS_MAX) <= size_of::<Control>());

fn message(part: &mut libc::iovec, control: &mut Control, control_bytes: usize) -> libc::msghdr {
    // SAFETY: zeroes are a valid struct msghdr.
    let mut message = unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control_bytes as _;
    message
}

/// Sends a message; EAGAIN if the other end has too many that it did not read.
pub fn send(fd: i32, bytes: &[u8], descriptors: &[i32]) -> Result<(), Errno> {
    assert!(descriptors.len() <= DESCRIPTORS_MAX);
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 64]);
    let length = if descriptors.is_empty() { 0 } else { control_bytes(descriptors.len()) };
    let message = message(&mut part, &mut control, length);
    // SAFETY: the control message has room for its header and the descriptors, and the kernel reads
    // the memory that the message points to, which outlives the call.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        if !header.is_null() {
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of_val(descriptors) as u32) as _;
            let data = libc::CMSG_DATA(header).cast::<i32>();
            ptr::copy_nonoverlapping(descriptors.as_ptr(), data, descriptors.len());
        }
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        checked(libc::sendmsg(fd, &message, flags) as libc::c_long).map(|_| ())
    }
}

/// The next message: its bytes, as many as fit, and its descriptors, which are the caller's. 0
/// bytes: the other end is closed. EAGAIN: there is none.
pub fn receive(fd: i32, bytes: &mut [u8]) -> Result<(usize, Descriptors), Errno> {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 64]);
    let mut message = message(&mut part, &mut control, size_of::<Control>());
    let mut descriptors = Descriptors::new();
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the kernel writes the bytes and the control message, which outlive the call. Each
    // descriptor that the header has is whole, and one that finds no room is closed.
    unsafe {
        let got = checked(libc::recvmsg(fd, &mut message, flags) as libc::c_long)?;
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            let is_rights =
                (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS;
            let data_bytes =
                ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            let data = libc::CMSG_DATA(header).cast::<i32>();
            for number in 0..if is_rights { data_bytes / size_of::<i32>() } else { 0 } {
                let descriptor = data.add(number).read_unaligned();
                if descriptors.try_push(descriptor).is_err() {
                    close(descriptor);
                }
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
        Ok((got, descriptors))
    }
}

/// A descriptor that one thread waits for and others call.
pub fn call() -> Result<i32, Errno> {
    // SAFETY: eventfd touches no memory.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    checked(fd.into()).map(|fd| fd as i32)
}

/// Calls the thread that waits for it.
pub fn ring(fd: i32) {
    let one = 1u64;
    // SAFETY: the kernel reads eight bytes.
    unsafe { libc::write(fd, (&raw const one).cast(), 8) };
}

/// Ends the calls so far.
pub fn quiet(fd: i32) {
    let mut count = 0u64;
    // SAFETY: the kernel writes eight bytes.
    unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
}

/// A descriptor that is waited for, and whether it has something to read or its other end closed.
pub type Watched = libc::pollfd;

/// To wait for a descriptor; less than 0: for none.
pub const fn watched(fd: i32) -> Watched {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Whether a wait found something at a descriptor.
pub fn is_ready(watched: &Watched) -> bool {
    watched.revents != 0
}

/// Whether the other end of a socket is closed, or a process that was watched has ended.
pub fn is_hung_up(fd: i32) -> bool {
    let mut one = [watched(fd)];
    wait(&mut one, 0);
    one[0].revents & (libc::POLLHUP | libc::POLLERR) != 0
}

/// Waits until one of the descriptors has something, for so many milliseconds at most.
pub fn wait(watched: &mut [Watched], milliseconds: i32) {
    watched.iter_mut().for_each(|one| one.revents = 0);
    // SAFETY: the kernel writes its findings into the structs. A signal ends it early, which is a
    // wait that found nothing.
    let _ = unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as _, milliseconds) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    fn own_name(name: &str) -> std::string::String {
        format!("{name}-{}", std::process::id())
    }

    #[test]
    fn a_name_is_one_processes_and_messages_bring_descriptors() {
        let name = own_name("sockets");
        let listening = listen(&name).unwrap();
        assert_eq!(listen(&name).err(), Some(Errno(libc::EADDRINUSE)));
        let consumer = connect(&name).unwrap();
        let owner = accept(listening.fd).unwrap();
        let me = Peer { process: std::process::id() as i32, user: user() };
        assert_eq!((peer(owner), peer(consumer)), (Ok(me), Ok(me)));
        let mut bytes = [0; 16];
        assert_eq!(receive(owner, &mut bytes).err(), Some(Errno(libc::EAGAIN)));
        send(consumer, b"hello", &[listening.fd, consumer]).unwrap();
        let (got, descriptors) = receive(owner, &mut bytes).unwrap();
        assert_eq!((&bytes[..got], descriptors.len()), (&b"hello"[..], 2));
        descriptors.into_iter().for_each(close);
        assert!(!is_hung_up(owner));
        close(consumer);
        assert!(is_hung_up(owner));
        assert_eq!(receive(owner, &mut bytes).map(|(got, _)| got), Ok(0));
        close(owner);
        listening.end(&name);
        assert_eq!(connect(&name).err(), Some(Errno(libc::ECONNREFUSED)));
    }

    #[test]
    fn a_path_is_taken_over_from_a_dead_owner_alone() {
        let folder = std::env::temp_dir().join(own_name("socket"));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("one");
        let name = path.to_str().unwrap();
        let first = listen(name).unwrap();
        assert_eq!(listen(name).err(), Some(Errno(libc::EADDRINUSE)));
        // Its end without `Listening::end`, which leaves the file.
        close(first.fd);
        first.holder.into_iter().for_each(close);
        assert!(path.exists());
        let second = listen(name).unwrap();
        close(connect(name).unwrap());
        second.end(name);
        assert!(!path.exists());
        std::fs::write(&path, "a file").unwrap();
        assert_eq!(listen(name).err(), Some(Errno(libc::EADDRINUSE)));
        assert!(path.exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
