//! What can be known of an array or a group without an instance: its record, what is in it, and the
//! caps that it needs.
//!
//! In: a uri and the caller's scratch block. Out: records. Nothing is kept.

use crate::base::abi::FilesHook;
use crate::base::arena::{Kind, split_end};
use crate::base::limits::{EDGE_RUNS_MAX, METADATA_BYTES_MAX};
use crate::base::math::align_up;
use crate::base::status::{Status, Why};
use crate::engine::open;
use crate::fail;
use crate::intake::arrays::Uri;
use crate::jobs::groups::{self, GroupPlace};
use crate::os::SYSTEM;
use crate::os::cancel::Uncancelled;
use crate::os::store::{Path, Store};
use crate::read::{Listing, read_document};
use crate::records::grid::EdgeRun;
use crate::records::{ArrayRecord, DocumentKind};
use crate::setup::config::Config;
use crate::setup::settings::{Settings, settings_from_config};
use crate::simd::FloatEnvironment;
use crate::source::zarr::{
    Group, GroupDocuments, Visit, array_from_document, group_from_documents, normalize_uri,
};
use static_assertions::const_assert;

/// Bytes of scratch that the functions here take: a document, and the runs of a rectilinear grid.
pub const SCRATCH_BYTES: usize = METADATA_BYTES_MAX + (64 << 10);

const_assert!(SCRATCH_BYTES > METADATA_BYTES_MAX + (EDGE_RUNS_MAX + 1) * size_of::<EdgeRun>());

/// What lies at a uri.
pub enum Node<'a> {
    /// An array.
    Array(ArrayRecord),
    /// A group.
    Group(GroupFiles<'a>),
}

/// The documents of a group, and how to reach what is in it.
pub struct GroupFiles<'a> {
    store: Store,
    uri: &'a Uri,
    documents: GroupDocuments<'a>,
}

impl GroupFiles<'_> {
    /// Reads the documents; `visit` sees every node that they name.
    pub fn group(&self, why: &mut Why, visit: &mut Visit<'_>) -> Result<Group<'_>, Status> {
        let _float = FloatEnvironment::enter();
        group_from_documents(&self.documents, self.uri.as_str(), why, visit)
    }

    /// Whether the folder of the group can be listed.
    pub fn can_list(&self) -> bool {
        !self.store.uses_hook()
    }

    /// Hands every node in the folder of the group to `visit`; whether those are all. Documents
    /// of the nodes are read into `buffer`.
    pub fn list(
        &self,
        buffer: &mut [u8],
        why: &mut Why,
        visit: &mut Visit<'_>,
    ) -> Result<bool, Status> {
        let uri = self.uri.as_str();
        let GroupDocuments { kind, group, .. } = self.documents;
        let place = GroupPlace { store: &self.store, uri, kind, document_bytes: group.len() };
        groups::list_nodes(&place, &mut |path| self.store.open(path), buffer, visit)
            .map(|listing| listing == Listing::Whole)
            .map_err(|fault| fail!(why, Io, "{}: its folder: {fault}", self.uri))
    }
}

/// Reads and understands the metadata at `uri`, which is left in `normal`. What it does not need of
/// `scratch` is handed back.
pub fn load_node<'a>(
    uri: &str,
    normal: &'a mut Uri,
    files: &FilesHook,
    scratch: &'a mut [u8],
    why: &mut Why,
) -> Result<(Node<'a>, &'a mut [u8]), Status> {
    let store = Store::new(&SYSTEM, *files, false);
    let (loaded, kind, document_bytes) = read(uri, &store, normal, scratch, why)?;
    let normal = &*normal;
    match loaded {
        Ok(record) => Ok((Node::Array(record), scratch)),
        Err(Status::NotFound) => {
            let place = GroupPlace { store: &store, uri: normal.as_str(), kind, document_bytes };
            let open = &mut |path: &Path| store.open(path);
            let Some((documents, rest)) = groups::read_group(&place, open, scratch, why)? else {
                return Err(fail!(
                    why,
                    Unsupported,
                    "{normal}: the documents of the group do not fit the scratch block: use a \
                     larger one"
                ));
            };
            Ok((Node::Group(GroupFiles { store, uri: normal, documents }), rest))
        }
        Err(status) => Err(status),
    }
}

/// Reads and understands the metadata of an array. A group is NOT_FOUND, and the text names what
/// is in it. Of a rectilinear array it says what holds for the whole, not for single files.
pub fn load(
    uri: &str,
    files: &FilesHook,
    scratch: &mut [u8],
    why: &mut Why,
) -> Result<ArrayRecord, Status> {
    let mut normal = Uri::new();
    let store = Store::new(&SYSTEM, *files, false);
    let (loaded, kind, document_bytes) = read(uri, &store, &mut normal, scratch, why)?;
    if !matches!(loaded, Err(Status::NotFound)) {
        return loaded;
    }
    let place = GroupPlace { store: &store, uri: normal.as_str(), kind, document_bytes };
    let open = &mut |path: &Path| store.open(path);
    let _float = FloatEnvironment::enter();
    let refused = groups::refuse_group(&place, open, scratch, true, why);
    Err(refused.unwrap_or(Status::NotFound))
}

/// Reads the document at `uri` into the start of `scratch`: the array that it describes or why it
/// describes none (NOT_FOUND: it is a group's), its kind, and its bytes.
fn read(
    uri: &str,
    store: &Store,
    normal: &mut Uri,
    scratch: &mut [u8],
    why: &mut Why,
) -> Result<(Result<ArrayRecord, Status>, DocumentKind, usize), Status> {
    if scratch.len() < SCRATCH_BYTES {
        return Err(fail!(
            why,
            Invalid,
            "scratch has {} bytes, {SCRATCH_BYTES} are needed",
            scratch.len()
        ));
    }
    normalize_uri(uri, normal, why)?;
    let ends = split_end(scratch, EDGE_RUNS_MAX, EdgeRun::EMPTY);
    let (buffer, table) = ends.unwrap_or((&mut [], &mut []));
    let Some(document) =
        read_document(store, |path| store.open(path), normal.as_str(), buffer, why)?
    else {
        // The scratch holds the largest document that is read.
        return Err(fail!(why, Internal, "{normal}: the metadata outgrew its cap"));
    };
    let _float = FloatEnvironment::enter();
    let (kind, bytes) = (document.kind, document.bytes);
    let loaded = array_from_document(kind, bytes, normal.as_str(), table, why);
    Ok((loaded, kind, bytes.len()))
}

/// Checks a config on this machine.
pub fn checked(config: &Config, why: &mut Why) -> Result<Settings, Status> {
    let mut settings = settings_from_config(config, (SYSTEM.cpu_count)(), why)?;
    settings.limit_derived_threads(open::floor_bytes);
    Ok(settings)
}

/// Raises the caps of `config` to what the arrays need: the chunk cap, and of the memory caps those
/// that are below the floor of the raised config.
pub fn fit<'a>(
    config: &mut Config,
    uris: impl Iterator<Item = Result<&'a str, Status>>,
    scratch: &mut [u8],
    why: &mut Why,
) -> Result<(), Status> {
    let _uncancelled = Uncancelled::enter();
    let mut fitted = *config;
    for uri in uris {
        let record = load(uri?, &config.files, scratch, why)?;
        fitted.max_chunk_uncompressed_bytes =
            fitted.max_chunk_uncompressed_bytes.max(record.working_bytes());
    }
    let settings = checked(&fitted, why)?;
    match open::bill(&settings, why) {
        Ok(_) => {}
        Err(Status::Budget) => {
            let host = open::floor_bytes(&settings);
            if host > settings.host_bytes_max() {
                fitted.max_host_memory_bytes = align_up(host, 1 << 20);
            }
            let device = open::floor_bill(&settings).total(Kind::Device);
            if device > settings.device_bytes_max() {
                fitted.max_gpu_memory_bytes = device;
            }
            open::bill(&checked(&fitted, why)?, why)?;
        }
        Err(status) => return Err(status),
    }
    *config = fitted;
    Ok(())
}
