//! The arrays, and the partial decoders that are kept of them.

use crate::Result;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, RwLock};
use zarrs::array::{ArrayPartialDecoderTraits, ArrayShardedExt, CodecOptions};
use zarrs::filesystem::{FilesystemStore, FilesystemStoreOptions};

/// Shards that are held open.
const FILES: usize = 256;

/// Number of the array, and which chunk.
type Key = (usize, Vec<u64>);
type Decoder = Arc<dyn ArrayPartialDecoderTraits>;

pub struct Array {
    pub array: zarrs::array::Array<FilesystemStore>,
    pub is_sharded: bool,
    /// u8, u16, i16, u32, u64 or f32.
    pub dtype: String,
    pub element_bytes: usize,
}

impl Array {
    pub fn open(uri: &str) -> Result<Array> {
        let open = |options| -> Result<_> {
            let store = Arc::new(FilesystemStore::new_with_options(Path::new(uri), options)?);
            Ok(zarrs::array::Array::open(store, "/")?)
        };
        let mut array = open(FilesystemStoreOptions::default())?;
        let is_sharded = array.is_sharded();
        if is_sharded {
            let mut options = FilesystemStoreOptions::default();
            options.file_handle_cache_size(FILES);
            array = open(options)?;
        }
        let name = format!("{:?}", array.data_type());
        let known = [
            ("UInt8", "u8", 1),
            ("UInt16", "u16", 2),
            ("Int16", "i16", 2),
            ("UInt32", "u32", 4),
            ("UInt64", "u64", 8),
            ("Float32", "f32", 4),
        ];
        let found = known.iter().find(|(long, ..)| name == format!("DataType({long}DataType)"));
        let (_, dtype, element_bytes) = found.ok_or_else(|| format!("{uri}: type {name}"))?;
        let (dtype, element_bytes) = ((*dtype).to_owned(), *element_bytes);
        Ok(Array { array, is_sharded, dtype, element_bytes })
    }
}

/// Decoders of shards, all of them, and of chunks up to a number of decoded bytes.
pub struct Kept {
    cache_bytes: usize,
    table: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    decoders: HashMap<Key, Decoder>,
    /// Chunks from old to new, with what each holds.
    chunks: VecDeque<(Key, usize)>,
    held_bytes: usize,
}

impl Kept {
    pub fn new(cache_bytes: usize) -> Kept {
        Kept { cache_bytes, table: RwLock::default() }
    }

    pub fn is_cache(&self) -> bool {
        self.cache_bytes > 0
    }

    /// The decoder of a chunk or shard, kept from before or made now.
    pub fn decoder(
        &self,
        number: usize,
        array: &Array,
        chunk: &[u64],
        options: &CodecOptions,
    ) -> Result<Decoder> {
        let key = (number, chunk.to_vec());
        if let Some(found) = self.table.read().expect("no thread failed").decoders.get(&key) {
            return Ok(found.clone());
        }
        let decoder = array.array.partial_decoder_opt(chunk, options)?;
        let mut table = self.table.write().expect("no thread failed");
        if let Some(found) = table.decoders.get(&key) {
            return Ok(found.clone());
        }
        if !array.is_sharded {
            let bytes = decoder.size_held();
            table.held_bytes += bytes;
            table.chunks.push_back((key.clone(), bytes));
            while table.held_bytes > self.cache_bytes
                && let Some((oldest, bytes)) = table.chunks.pop_front()
            {
                table.held_bytes -= bytes;
                table.decoders.remove(&oldest);
            }
        }
        table.decoders.insert(key, decoder.clone());
        Ok(decoder)
    }
}
