//! The plain structs of the C surface, as include/wavetrain.h declares them.
//!
//! Those with a name for their empty value start with `struct_size` and only ever grow at their
//! end. A caller with an older header passes a smaller size: fields past it are neither read nor
//! written. [`Config`](crate::config::Config) is in `config`, [`Stats`] in `stats`.
//!
//! Over 500 lines: the structs of one header are one list.

use crate::base::limits::{ERROR_TEXT_BYTES, METADATA_BYTES_MAX, RANK_MAX};
use core::ffi::{c_char, c_void};
use core::ptr;

pub use crate::base::stats::{Metric, Stats};

/// Bytes of a short name in an info struct, its NUL included.
pub const NAME_BYTES: usize = 64;
/// Bytes of the codec text in [`ArrayInfo`], its NUL included.
pub const CODECS_TEXT_BYTES: usize = 384;
/// Lines in [`Memory`].
pub const MEMORY_LINES: usize = 32;
/// Buckets of a log2 histogram: bucket b counts values in [2^b, 2^(b+1)) ns, bucket 0 also 0 ns,
/// the last bucket everything above.
pub const HISTOGRAM_BUCKETS: usize = 32;
/// Places of an array that counts by what compressed a chunk: the numbers of
/// [`crate::records::Codec`], with room for more.
pub const CODEC_PLACES: usize = 8;
/// Places of a count by reason; those without a reason hold 0.
pub const BY_WORKER_PLACES: usize = 16;
/// The place of chunks that nothing compressed.
pub const CODEC_NONE: usize = 0;

/// `MemoryLine::kind`: ordinary host memory.
pub const MEMORY_HOST: u32 = 0;
/// `MemoryLine::kind`: page-locked host memory.
pub const MEMORY_PINNED: u32 = 1;
/// `MemoryLine::kind`: device memory.
pub const MEMORY_DEVICE: u32 = 2;
/// Bytes of scratch that `config_fit` and `array_info` ask for: one metadata document and what
/// parsing it takes.
pub const SCRATCH_BYTES: usize = METADATA_BYTES_MAX + (64 << 10);
/// `GroupEntry::row` and its like where the store does not say.
pub const NO_INDEX: u32 = u32::MAX;
/// `Event::batch` of an event of no batch, or of several.
pub const NO_BATCH: u64 = u64::MAX;
/// `Event::wave` and `Event::slot` of an event of none.
pub const NO_PLACE: u32 = u32::MAX;
/// `ArrayInfo::entry_sources`: OME-NGFF attributes name entries.
pub const SOURCE_NGFF: u32 = 1;
/// `ArrayInfo::entry_sources`: consolidated metadata names entries.
pub const SOURCE_CONSOLIDATED: u32 = 2;
/// `ArrayInfo::entry_sources`: the folder of the group was listed.
pub const SOURCE_FOLDER: u32 = 4;
/// `ArrayInfo::packing`: there is `scale_factor`.
pub const PACKING_SCALE: u32 = 1;
/// `ArrayInfo::packing`: there is `add_offset`.
pub const PACKING_OFFSET: u32 = 2;
/// `ArrayInfo::packing`: there is `_FillValue` or `missing_value`.
pub const PACKING_FILL: u32 = 4;
/// `ArrayInfo::packing`: there is `_Unsigned`.
pub const PACKING_UNSIGNED: u32 = 8;
/// `ArrayInfo::packing`: the attributes could not be read.
pub const PACKING_UNKNOWN: u32 = 16;
/// Bytes of `ArrayInfo::ngff_version`, its NUL included.
pub const NGFF_VERSION_BYTES: usize = 16;
/// The answer of `wavetrain_files_hook.size` for a file that does not exist.
pub const FILE_ABSENT: i64 = -1;
/// The answer of `wavetrain_files_hook.size` for every other failure.
pub const FILE_FAILED: i64 = -2;
/// The answer of a store hook for a file that is of another version than is asked for.
pub const FILE_CHANGED: i64 = -3;
/// The answer of `wavetrain_store_hook.list` for a folder of a store that has no listings.
pub const FILE_UNLISTED: i64 = -4;
/// `SampleBox::kind`: an array, by its uri.
pub const BOX_URI: u32 = 0;
/// `SampleBox::kind`: memory of the caller's.
pub const BOX_MEMORY: u32 = 1;
/// `SampleBox::kind`: a value that push copies.
pub const BOX_VALUE: u32 = 2;
/// `TableColumn::flags`: `begin` has one row.
pub const BEGIN_IS_ONE: u32 = 1;
/// `TableColumn::flags`: `shape` has one row.
pub const SHAPE_IS_ONE: u32 = 2;
/// `TableColumn::flags`: `step` has one row.
pub const STEP_IS_ONE: u32 = 4;
/// `TableColumn::flags`: `at` has one row.
pub const AT_IS_ONE: u32 = 8;
/// `TableColumn::flags`: `which` has one row.
pub const WHICH_IS_ONE: u32 = 16;
/// `TableColumn::flags`: `values` has one row.
pub const VALUES_IS_ONE: u32 = 32;
/// `TableColumn::flags`: `augment` has one row.
pub const AUGMENT_IS_ONE: u32 = 64;
/// `TableColumn::flags`: `affine` has one row.
pub const AFFINE_IS_ONE: u32 = 128;
/// Erased boxes of a box at most.
pub const ERASES_MAX: usize = 8;
/// Channels that scale, bias and erased values tell apart at most.
pub const CHANNELS_MAX: usize = 64;
/// Axes that a map has at most.
pub const MAP_AXES: usize = 3;
/// `Affine::filter`: the voxel that is nearest.
pub const NEAREST: u32 = 0;
/// `Affine::filter`: between the two voxels of each axis.
pub const LINEAR: u32 = 1;
/// A job of ours that the host runs: it takes the argument that came with it.
pub type HostJob = unsafe extern "C" fn(argument: *mut c_void);
/// The function that `StoreHook::list` calls for each child of a folder.
pub type FoundChild =
    Option<unsafe extern "C" fn(context: *mut c_void, child: *const c_char, is_folder: i32)>;

/// What a value holds that nobody has set: zeros, where a struct does not say otherwise.
#[doc(hidden)]
pub trait Blank: Copy {
    /// That value.
    const BLANK: Self;
}

macro_rules! blanks {
    ($($type:ty: $blank:expr),+) => {
        $(impl Blank for $type { const BLANK: $type = $blank; })+
    };
}

blanks!(i8: 0, u8: 0, u32: 0, i32: 0, u64: 0, i64: 0, usize: 0, f32: 0.0, f64: 0.0);

impl<T: Blank, const N: usize> Blank for [T; N] {
    const BLANK: [T; N] = [T::BLANK; N];
}

impl<T> Blank for *const T {
    const BLANK: *const T = ptr::null();
}

impl<T> Blank for *mut T {
    const BLANK: *mut T = ptr::null_mut();
}

impl<T: Copy> Blank for Option<T> {
    const BLANK: Option<T> = None;
}

/// A struct that starts with its size, so that it can grow at its end.
#[doc(hidden)]
pub trait Grows: Copy {}

/// Structs of the header. `struct Name { field: type, .. }` is one that never grows; `struct Name,
/// EMPTY { .. }` gets `struct_size` before its fields, and the constant EMPTY, in which that is
/// set. A field is zeros there, where no `= value` stands behind its type.
macro_rules! c_structs {
    () => {};
    (
        $(#[$meta:meta])*
        struct $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty $(= $value:expr)?,)+ }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name { $($(#[$doc])* pub $field: $type,)+ }

        impl $name {
            /// Its fields in order, and where each lies.
            #[doc(hidden)]
            pub const FIELDS: &'static [(&'static str, usize)] =
                &[$((stringify!($field), core::mem::offset_of!($name, $field))),+];
        }

        impl $crate::base::abi::Blank for $name {
            const BLANK: $name = $name { $($field: $crate::base::abi::blank_or!($($value)?)),+ };
        }

        $crate::base::abi::c_structs! { $($rest)* }
    };
    (
        $(#[$meta:meta])*
        struct $name:ident, $empty:ident { $($fields:tt)+ }
        $($rest:tt)*
    ) => {
        $crate::base::abi::c_structs! {
            $(#[$meta])*
            struct $name {
                /// Size of this struct as the caller knows it.
                struct_size: usize,
                $($fields)+
            }
        }

        impl $name {
            /// One in which nothing was changed, its size set.
            pub const $empty: $name = $name {
                struct_size: size_of::<$name>(),
                ..<$name as $crate::base::abi::Blank>::BLANK
            };
        }

        impl $crate::base::abi::Grows for $name {}
        const _: () = assert!(core::mem::offset_of!($name, struct_size) == 0);

        $crate::base::abi::c_structs! { $($rest)* }
    };
}
pub(crate) use c_structs;

macro_rules! blank_or {
    () => {
        $crate::base::abi::Blank::BLANK
    };
    ($value:expr) => {
        $value
    };
}
pub(crate) use blank_or;

c_structs! {
    /// Why a call or a batch failed: `wavetrain_error`.
    struct Error, EMPTY {
        /// The status code.
        status: i32,
        /// Number of coordinates in `chunk`; 0 where no chunk is to blame.
        chunk_rank: u32,
        /// Tag of the sample to blame.
        tag: u64,
        /// Number of the batch to blame, from 0 since open or reset.
        batch_id: u64,
        /// Index of the sample in its batch.
        sample: u32,
        /// Always 0.
        reserved: u32,
        /// Coordinates of the chunk in the array's chunk grid.
        chunk: [u64; RANK_MAX],
        /// NUL-terminated UTF-8: names the array, the chunk and the reason.
        text: [c_char; ERROR_TEXT_BYTES],
    }

    /// One line of the memory bill: `wavetrain_memory_line`.
    struct MemoryLine {
        /// NUL-terminated name of what the bytes are for.
        name: [c_char; NAME_BYTES],
        /// MEMORY_HOST, _PINNED or _DEVICE.
        kind: u32,
        /// Always 0.
        reserved: u32,
        /// How many bytes.
        bytes: u64,
    }

    /// The memory bill of a config: `wavetrain_memory`.
    struct Memory, EMPTY {
        /// Bytes of ordinary host memory, one block aligned to `host_align`.
        host_bytes: u64,
        /// Alignment of the host block.
        host_align: u64,
        /// Bytes of page-locked memory; 0 on the host backend.
        pinned_bytes: u64,
        /// Bytes of device memory; 0 on the host backend.
        device_bytes: u64,
        /// Host bytes that the batch slots take, part of `host_bytes`.
        slot_bytes: u64,
        /// Threads that open will start.
        threads: u32,
        /// Valid entries of `lines`.
        line_count: u32,
        /// Where the bytes go.
        lines: [MemoryLine; MEMORY_LINES],
        /// Bytes of host memory that processes share.
        shared_bytes: u64,
    }

    /// One field's box: `wavetrain_box`.
    struct SampleBox {
        /// UTF-8 path or file:// uri of the array; copied by push.
        uri: *const c_char,
        /// Bytes of `uri`, without a NUL.
        uri_bytes: u64,
        /// Axes of the box.
        rank: u32,
        /// `BOX_URI`, `BOX_MEMORY` or `BOX_VALUE`.
        kind: u32,
        /// First element along each axis.
        begin: [i64; RANK_MAX],
        /// One past the last element along each axis.
        end: [i64; RANK_MAX],
        /// Field that its elements go to.
        field: u32,
        /// Always 0.
        reserved: u32,
        /// By axis of the field: where the first place goes.
        at: [u64; RANK_MAX],
        /// By axis of the box: elements from one place to the next; 0 is 1, and less than 0 is
        /// backwards.
        step: [i64; RANK_MAX],
        /// By axis of the box: 1 + the axis of the field, 0 for an axis that is dropped; all 0: the
        /// axes of the field in order.
        axes: [u8; RANK_MAX],
        /// What is fed, where kind is not `BOX_URI`.
        tensor: *const Tensor,
        /// What becomes of the elements on their way into the field; NULL: they are cast.
        augment: *const Augment,
        /// The map from its places to voxels; NULL: begin, end and step are it.
        affine: *const Affine,
        /// `n_lists` index lists, `list_bytes` apart; NULL if it has 0.
        lists: *const IndexList,
        /// How many.
        n_lists: u32,
        /// Size of each.
        list_bytes: u32,
    }

    /// An axis of a box that is a list of indices: `wavetrain_index_list`.
    struct IndexList {
        /// Axis of the box.
        axis: u32,
        /// Always 0.
        reserved: u32,
        /// `n_indices` elements of the array along the axis.
        indices: *const i64,
        /// How many, at least 1.
        n_indices: u64,
    }

    /// Arithmetic on the elements of a box: `wavetrain_augment`.
    struct Augment, EMPTY {
        /// `n_channels` factors; NULL: 1.
        scale: *const f32,
        /// `n_channels` terms; NULL: 0.
        bias: *const f32,
        /// How many; 1: the same for all channels, 0: neither scale nor bias.
        n_channels: u32,
        /// Axis of the field along which the channels lie.
        channel_axis: u32,
        /// Least value.
        clamp_low: f32,
        /// Largest value.
        clamp_high: f32,
        /// 1: values are clamped.
        has_clamp: u32,
        /// Standard deviation of noise; 0: none.
        noise_sigma: f32,
        /// Key of the noise.
        noise_key: u64,
        /// `n_erase` boxes of the field.
        erase: *const Erase,
        /// How many, up to `ERASES_MAX`.
        n_erase: u32,
        /// sizeof(wavetrain_erase) as the caller knows it.
        erase_bytes: u32,
        /// 1: padding goes through all of this; 0: it is cast alone.
        pad_goes_through: u32,
        /// Always 0.
        reserved: u32,
    }

    /// A box of a field that is overwritten: `wavetrain_erase`.
    struct Erase {
        /// First place along each axis of the field.
        begin: [u64; RANK_MAX],
        /// One past the last place.
        end: [u64; RANK_MAX],
        /// What they hold: `n_values` values.
        values: *const f32,
        /// 1, or as many as there are channels.
        n_values: u32,
        /// Always 0.
        reserved: u32,
    }

    /// From the places of a field to the voxels of an array: `wavetrain_affine`.
    struct Affine, EMPTY {
        /// Axes that are mapped, 1 to 3.
        rank: u32,
        /// Which axes of the array.
        axes: [u32; MAP_AXES],
        /// Output place to voxel, or to physical units.
        matrix: [[f64; MAP_AXES + 1]; MAP_AXES],
        /// `NEAREST` or `LINEAR`.
        filter: u32,
        /// Level of the image; -1: the coarsest that is fine enough.
        level: i32,
        /// 1: the matrix gives physical units of an OME-NGFF image.
        has_units: u32,
        /// Always 0.
        reserved: u32,
    }

    /// What a box is fed from: `wavetrain_tensor`.
    struct Tensor, EMPTY {
        /// The first element.
        data: *const c_void,
        /// Element type.
        dtype: u32,
        /// Bytes of an element where dtype is RAW, else 0.
        dtype_bytes: u32,
        /// CUDA device; -1: memory of the host.
        device: i32 = -1,
        /// Always 0.
        reserved: u32,
        /// Extents of as many axes as the box has.
        shape: [u64; RANK_MAX],
        /// Bytes from one element to the next; all 0: row-major.
        strides: [i64; RANK_MAX],
        /// Of a device: the `CUevent` behind which the elements are there, or NULL.
        event: *mut c_void,
    }

    /// A box of each row of a table: `wavetrain_column`. Arrays have as many rows as the table,
    /// or, where `flags` says so, one.
    struct TableColumn, EMPTY {
        /// Field that the elements go to.
        field: u32,
        /// Axes of the boxes.
        rank: u32,
        /// `BOX_URI` or `BOX_VALUE`.
        kind: u32,
        /// `BEGIN_IS_ONE` and the others.
        flags: u32,
        /// `n_uris` texts with a NUL.
        uris: *const *const c_char,
        /// How many.
        n_uris: u32,
        /// Always 0.
        reserved: u32,
        /// The number of the uri of each row; NULL: 0.
        which: *const u32,
        /// First elements, `rank` of each row.
        begin: *const i64,
        /// Places of the box, `rank` of each row.
        shape: *const u64,
        /// Elements from one place to the next, `rank` of each row; NULL: 1.
        step: *const i64,
        /// Where the first place goes, as many of each row as the field has axes; NULL: 0.
        at: *const u64,
        /// The value of each row, where kind is `BOX_VALUE`.
        values: *const c_void,
        /// Their element type.
        value_dtype: u32,
        /// Bytes of the value of a row.
        value_bytes: u32,
        /// What becomes of the elements of each row; NULL: they are cast.
        augment: *const Augment,
        /// sizeof(wavetrain_augment) as the caller knows it.
        augment_bytes: u32,
        /// sizeof(wavetrain_affine) as the caller knows it.
        affine_bytes: u32,
        /// The map from places to voxels of each row; NULL: begin, shape and step are it.
        affine: *const Affine,
    }

    /// A field of batches: `wavetrain_field`.
    struct FieldSpec {
        /// UTF-8 with a NUL.
        name: [u8; NAME_BYTES],
        /// Axes of a sample; 0: one element for each.
        sample_rank: u32,
        /// Element type.
        dtype: u32,
        /// Bytes of an element where dtype is RAW, else 0.
        dtype_bytes: u32,
        /// PAD_NONE, _CONSTANT, _EDGE or _REFLECT.
        pad_mode: u32,
        /// 1: constant padding takes pad_value; 0: the array's fill value.
        pad_value_set: u32,
        /// 1: arrays are decoded by the CF conventions, as with #cf=1 at the end of their uris.
        cf: u32,
        /// Extents of a sample, each at least 1.
        sample_shape: [u64; RANK_MAX],
        /// What padding, places that no box covers and skipped samples hold.
        pad_value: f64,
    }

    /// One sample: `wavetrain_sample`. Push takes the size of it as an argument.
    struct Sample {
        /// `n_boxes` boxes.
        boxes: *const SampleBox,
        /// Number of boxes.
        n_boxes: u32,
        /// sizeof(wavetrain_box) as the caller knows it.
        box_bytes: u32,
        /// The caller's number for the sample; comes back with the batch.
        tag: u64,
    }

    /// What a popped batch holds: `wavetrain_batch_view`. Pointers are valid until release.
    struct BatchInfo, EMPTY {
        /// First byte; host memory on the host backend. Rows are packed, row-major.
        data: *mut c_void,
        /// Bytes of the valid samples.
        bytes: u64,
        /// Axes of `shape`: 1 + sample_rank.
        rank: u32,
        /// Element type code.
        dtype: u32,
        /// Bytes of an element.
        dtype_bytes: u32,
        /// 1 host, 2 CUDA: what `data` points to.
        backend: u32,
        /// CUDA device ordinal; -1 on the host.
        device: i32,
        /// Samples in the batch: shape[0].
        sample_count: u32,
        /// Extents: samples, then the sample shape.
        shape: [u64; RANK_MAX + 1],
        /// CUstream that the data is ready on; NULL on the host, where it is ready now.
        ready_stream: *mut c_void,
        /// From 0, in push order, since open or reset.
        batch_id: u64,
        /// `sample_count` tags, in push order.
        tags: *const u64,
        /// `sample_count` status codes: 0, or why the sample holds pad_value (on_error = skip).
        statuses: *const i32,
        /// Samples whose status is not 0.
        failed_samples: u32,
        /// Always 0.
        reserved: u32,
        /// For each sample and each axis of the field how far its boxes reach, 0 where there are
        /// none; of a scalar 1 or 0.
        filled_shape: *const u64,
        /// Digests of the `sample_count` samples; NULL where the config asks for none.
        digests: *const u64,
        /// The sum over the samples of their digests, mixed with their positions in the stream.
        digest: u64,
        /// Name of the field, with a NUL; lives as long as the loader.
        name: *const c_char,
        /// The tag of the memory that the batch lies in, if that is lent.
        lend_tag: u64,
        /// 1: it is.
        is_lent: u32,
        /// Always 0.
        reserved2: u32,
    }

    /// Memory that a caller lends for a field of a batch: `wavetrain_target`.
    struct Target {
        /// Its first byte.
        data: *mut c_void,
        /// How many bytes may be written.
        bytes: u64,
    }

    /// An axis of an image: `wavetrain_axis`. Strings are NUL-terminated, empty where nothing is
    /// said.
    #[derive(Debug)]
    struct AxisInfo {
        /// "z".
        name: *const c_char,
        /// "space", "time" or "channel".
        kind: *const c_char,
        /// "micrometer".
        unit: *const c_char,
    }

    /// A node in a group: `wavetrain_group_entry`. Pointers lead into the caller's scratch block.
    #[derive(Debug)]
    struct GroupEntry {
        /// Path below the group, NUL-terminated.
        path: *const c_char,
        /// Name of the image that a level is of, NUL-terminated; empty where it has none.
        image_name: *const c_char,
        /// `rank` axes of a level; NULL for others.
        axes: *const AxisInfo,
        /// NODE_.
        kind: u32,
        /// Axes of a level; 0 for others.
        rank: u32,
        /// Which image of the group a level is of; NO_INDEX for others.
        image: u32 = NO_INDEX,
        /// Place of a level in its image, 0 the finest; NO_INDEX for others.
        level: u32 = NO_INDEX,
        /// Row of a well, or NO_INDEX.
        row: u32 = NO_INDEX,
        /// Column of a well, or NO_INDEX.
        column: u32 = NO_INDEX,
        /// Acquisition of a field, or NO_INDEX.
        acquisition: u32 = NO_INDEX,
        /// 1: the store says scale or translation of this level.
        has_transform: u32,
        /// Physical units per element.
        scale: [f64; RANK_MAX] = [1.0; RANK_MAX],
        /// Physical units of element 0.
        translation: [f64; RANK_MAX],
    }

    /// What an array or a group is: `wavetrain_array_view`.
    struct ArrayInfo, EMPTY {
        /// Number of axes.
        rank: u32,
        /// Element type code.
        dtype: u32,
        /// Bytes of an element.
        dtype_bytes: u32,
        /// 0 little, 1 big: byte order in the store.
        byte_order: u32,
        /// Extents of the array.
        shape: [u64; RANK_MAX],
        /// Extents of a chunk, of the largest where `is_rectilinear`.
        chunk_shape: [u64; RANK_MAX],
        /// Extents of a file, likewise: a shard, or a chunk where there are no shards.
        file_shape: [u64; RANK_MAX],
        /// 0: files are chunks; 1, 2: levels of shards.
        shard_levels: u32,
        /// 1: the shard index lies before the chunks.
        index_at_start: u32,
        /// Bytes of a decoded chunk, likewise.
        chunk_bytes: u64,
        /// One element that missing chunks read as, in this machine's byte order.
        fill: [u8; 16],
        /// Element type as the store spells it, NUL-terminated.
        dtype_name: [c_char; NAME_BYTES],
        /// Codecs of a chunk as a line: "bytes(little) zstd", of v2 "zstd order F"; NUL-terminated.
        codecs: [c_char; CODECS_TEXT_BYTES],
        /// NODE_ARRAY; else a group, and what is above is 0.
        kind: u32,
        /// Entries that `entries` has.
        entry_count: u32,
        /// Entries that were found.
        entry_total: u64,
        /// What is in the group, in the caller's scratch block; NULL where there is nothing.
        entries: *const GroupEntry,
        /// SOURCE_ bits: where the entries come from; 0: nothing lists them.
        entry_sources: u32,
        /// 1: there are more than `entry_total`; the folder was not listed to its end.
        entries_are_cut: u32,
        /// Multiscale images in the group.
        image_count: u32,
        /// Rows of a plate.
        row_count: u32,
        /// Columns of a plate.
        column_count: u32,
        /// Most fields in a well of a plate, where it says so.
        field_count: u32,
        /// Version of OME-NGFF, NUL-terminated; empty where it is none or does not say.
        ngff_version: [c_char; NGFF_VERSION_BYTES],
        /// Name of the plate or of the first image that has one, NUL-terminated, cut to fit.
        name: [c_char; NAME_BYTES],
        /// 1: files have different extents along some axis, and chunk_shape, file_shape and
        /// chunk_bytes are those of the largest; 0: all files are alike.
        is_rectilinear: u32,
        /// 0.
        reserved: u32,
        /// Extents of the smallest file.
        file_shape_min: [u64; RANK_MAX],
        /// Number of files along each axis, missing ones included.
        file_counts: [u64; RANK_MAX],
        /// PACKING_ bits: attributes by which other readers make other numbers of the elements.
        /// They are applied if the uri ends with `#cf=1`.
        packing: u32,
        /// 0.
        reserved2: u32,
        /// The ends of numbered .npy files along axis 0, `file_counts[0]` of them, in the caller's
        /// scratch block; NULL if that has too little room, and of other arrays.
        file_ends: *const u64,
    }

    /// `wavetrain_memory_hook`: where open takes its memory. All zero: from the system.
    ///
    /// Blocks come before functions. Both functions are called on the thread that calls open or
    /// close.
    struct MemoryHook, NONE {
        /// Handed to the functions.
        user: *mut c_void,
        /// A block of at least the bill's host_bytes, aligned to its host_align; or NULL.
        host_block: *mut c_void,
        /// Bytes of `host_block`.
        host_block_bytes: u64,
        /// Returns `bytes` bytes aligned to `align`, or NULL.
        alloc: Option<
            unsafe extern "C" fn(user: *mut c_void, bytes: u64, align: u64) -> *mut c_void
        >,
        /// Takes back what `alloc` gave.
        free: Option<
            unsafe extern "C" fn(user: *mut c_void, block: *mut c_void, bytes: u64, align: u64)
        >,
    }

    /// `wavetrain_files_hook`: files that only the host can read. All zero: the system's files.
    ///
    /// All functions may block and are called from several threads at once.
    struct FilesHook, NONE {
        /// Handed to the functions.
        user: *mut c_void,
        /// Size of the file in bytes, FILE_ABSENT or FILE_FAILED. `name` is the uri, a separator
        /// and the key, NUL-terminated.
        size: Option<unsafe extern "C" fn(user: *mut c_void, name: *const c_char) -> i64>,
        /// Reads exactly `bytes` bytes at `offset`: 0, or FILE_ABSENT or FILE_FAILED.
        read: Option<
            unsafe extern "C" fn(
                user: *mut c_void, name: *const c_char,
                offset: u64, target: *mut c_void, bytes: u64,
            ) -> i64
        >,
        /// Begins the same read of chunk data: 0, and `wavetrain_read_done` follows once; or
        /// FILE_ABSENT or FILE_FAILED, and nothing follows.
        read_async: Option<
            unsafe extern "C" fn(
                user: *mut c_void, loader: u64, ticket: u64, name: *const c_char,
                offset: u64, target: *mut c_void, bytes: u64,
            ) -> i64
        >,
    }

    /// `wavetrain_source_info`: what the host says of an array of its own.
    struct SourceInfo, EMPTY {
        /// Number of axes.
        rank: u32,
        /// Element type by number; elements are in this machine's byte order.
        dtype: u32,
        /// Bytes of one element; 0 where the type says so.
        dtype_bytes: u32,
        /// 0.
        reserved: u32,
        /// Extents.
        shape: [u64; RANK_MAX],
        /// Extents of a chunk, which no read crosses; all 0: any box is one read.
        chunk_shape: [u64; RANK_MAX],
        /// One element that absent chunks read as.
        fill: [u8; 16],
    }

    /// `wavetrain_source_hook`: arrays that only the host can read. All zero: there are none.
    ///
    /// Both functions may block and are called from several threads at once.
    struct SourceHook, NONE {
        /// Handed to the functions.
        user: *mut c_void,
        /// Says what the array of that name is: 0, FILE_ABSENT or FILE_FAILED.
        describe: Option<
            unsafe extern "C" fn(
                user: *mut c_void, name: *const c_char, info: *mut SourceInfo,
            ) -> i64
        >,
        /// Writes the elements `[begin, end)`, of `bytes` bytes, row-major: 0, or FILE_ABSENT or
        /// FILE_FAILED.
        read: Option<
            unsafe extern "C" fn(
                user: *mut c_void, name: *const c_char, begin: *const u64, end: *const u64,
                target: *mut c_void, bytes: u64,
            ) -> i64
        >,
    }

    /// `wavetrain_store_hook`: what the files hook lacks. All zero: nothing.
    ///
    /// The functions get `user` of the files hook, and need its size and read. They return 0,
    /// FILE_ABSENT, FILE_FAILED or FILE_CHANGED. A version is 32 bytes, of which zeros are none.
    struct StoreHook, NONE {
        /// The last bytes of a file, 1 at least, or all of a shorter one; how many they are, its
        /// size and its version.
        read_tail: Option<
            unsafe extern "C" fn(
                user: *mut c_void, name: *const c_char, target: *mut c_void, bytes: u64,
                got: *mut u64, size: *mut u64, version: *mut u8,
            ) -> i64
        >,
        /// As `read` of the files hook, of one version alone, else FILE_CHANGED; zeros: of any,
        /// which is told.
        read_version: Option<
            unsafe extern "C" fn(
                user: *mut c_void, name: *const c_char, version: *mut u8, offset: u64,
                target: *mut c_void, bytes: u64,
            ) -> i64
        >,
        /// As `read_async` of the files hook, of one version alone, or of any; nothing is told.
        read_version_async: Option<
            unsafe extern "C" fn(
                user: *mut c_void, loader: u64, ticket: u64, name: *const c_char,
                version: *mut u8, offset: u64, target: *mut c_void, bytes: u64,
            ) -> i64
        >,
        /// Calls `found` for each child of a folder, on the calling thread and before it returns:
        /// 0, FILE_ABSENT or FILE_FAILED.
        list: Option<
            unsafe extern "C" fn(
                user: *mut c_void, name: *const c_char, found: FoundChild, context: *mut c_void,
            ) -> i64
        >,
        /// Bytes between two chunks of a file that are read with them.
        merge_gap_bytes: u64,
        /// Largest read that merging makes; 0: max_read_op_bytes.
        merge_bytes_max: u64,
        /// Most reads in flight; 0: twice n_io_threads.
        reads_max: u32,
        /// 1: a read that fails is not tried once more.
        retries_itself: u32,
    }

    /// `wavetrain_metadata_latency`: how long requests for metadata sleep before they are made. All
    /// zero: not at all.
    #[derive(PartialEq, Debug)]
    struct MetadataLatency {
        /// Constant part in nanoseconds.
        baseline_ns: u64,
        /// Mean of the logarithm of the random part in nanoseconds, which is 0 if this and the
        /// deviation are.
        lognormal_mu_ln_ns: f64,
        /// Its standard deviation.
        lognormal_sigma_ln_ns: f64,
        /// Largest random part in nanoseconds; 0: no limit.
        cap_ns: u64,
        /// Seed of the random part.
        seed: u64,
    }

    /// `wavetrain_event`: one observation of a stage.
    #[derive(PartialEq, Debug)]
    struct Event {
        /// When it began, by CLOCK_MONOTONIC.
        begin_ns: u64,
        /// How long it took.
        duration_ns: u64,
        /// Bytes that it adds to `output_bytes` of the stage.
        bytes: u64,
        /// Number of the batch, as `BatchInfo` has it; NO_BATCH: of none or of several.
        batch: u64,
        /// The number of the stage: `STAGE_`.
        kind: u32,
        /// The kernel's number of the thread; 0: no thread worked or waited, as on a device.
        thread: u32,
        /// Number of the wave, of those that are staged at a time; NO_PLACE: of none.
        wave: u32,
        /// The slot of the batch; NO_PLACE: of none or of several.
        slot: u32,
    }

    /// A part of the metadata of an array, which is looked up for loaders elsewhere:
    /// `wavetrain_metadata_part`.
    struct MetadataPart, EMPTY {
        /// The first shard of which the index is looked up. 0: the documents, too.
        first_shard: u64,
        /// Most shards of which it is.
        shard_count: u64,
        /// The place for records.
        out: *mut c_void,
        /// Bytes that there are.
        out_bytes: usize,
        /// Bytes of the records that were written.
        written: u64,
        /// Shards that the array has; 0 if its files have no index.
        shards: u64,
    }

    /// `wavetrain_log_hook`: where log lines go. All zero: nowhere.
    struct LogHook, NONE {
        /// Handed to the function.
        user: *mut c_void,
        /// May run on any thread of ours and on callers' threads inside a call; `text` has
        /// `text_bytes` bytes and a NUL, valid during the call. `tag`: the sample's, else 0.
        log: Option<
            unsafe extern "C" fn(
                user: *mut c_void, level: u32, tag: u64, text: *const c_char, text_bytes: u64,
            )
        >,
    }

    /// `wavetrain_fatal_hook`: last words before the process ends by a defect of ours.
    ///
    /// Called by the panic handler of the archive. A Rust host has its own panic handler, and keeps
    /// it.
    struct FatalHook, NONE {
        /// Handed to the function.
        user: *mut c_void,
        /// Must not return.
        fatal: Option<
            unsafe extern "C" fn(
                user: *mut c_void, file: *const c_char, line: u32, text: *const c_char,
            )
        >,
    }

    /// `wavetrain_workers_hook`: the host's job system.
    struct WorkersHook, NONE {
        /// Handed to the function.
        user: *mut c_void,
        /// Runs `job(argument)` on some thread, or at once.
        run: Option<unsafe extern "C" fn(user: *mut c_void, job: HostJob, argument: *mut c_void)>,
    }

    /// `wavetrain_profiler_hook`: named ranges for a profiler.
    struct ProfilerHook, NONE {
        /// Handed to the functions.
        user: *mut c_void,
        /// A range begins on this thread.
        begin: Option<unsafe extern "C" fn(user: *mut c_void, name: *const c_char)>,
        /// The innermost range of this thread ends.
        end: Option<unsafe extern "C" fn(user: *mut c_void)>,
    }
}

/// Copies a name into a fixed field, cut to fit, with its NUL.
pub fn write_text(target: &mut [c_char], text: &str) {
    target.fill(0);
    let most = text.floor_char_boundary(target.len() - 1);
    for (byte, source) in target.iter_mut().zip(&text.as_bytes()[..most]) {
        *byte = *source as c_char;
    }
}
