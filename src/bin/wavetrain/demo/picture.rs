//! The demo's picture: samples as seen from above, each its image, its mask and its label side by
//! side, both stains of the image in false colours.
//!
//! A crop is folded along z as it is delivered (the brightest of the local means of three slices,
//! so that noise does not win), and only the folded image is kept.

use super::check::Elements;
use crate::fault::{Fault, Outcome};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Tiles beside and above each other.
pub const TILES: [usize; 2] = [2, 3];
/// Pixels of the picture per voxel.
const SCALE: usize = 2;
const GAP: usize = 6;
const BACKGROUND: [f32; 3] = [0.012, 0.012, 0.02];
/// Width of a label, and pixels of a dot of its digits.
const LABEL_WIDTH: usize = 112;
const DOT: usize = 12;

/// Colours from dark to bright: violet, crimson, amber, pale yellow.
const EMBER: [[u8; 3]; 9] = [
    [2, 2, 8],
    [24, 10, 52],
    [66, 14, 98],
    [116, 27, 108],
    [170, 44, 92],
    [217, 76, 60],
    [245, 126, 32],
    [252, 186, 58],
    [253, 246, 190],
];

/// Colours from black over teal to pale cyan.
const GLACIER: [[u8; 3]; 6] =
    [[0, 0, 0], [2, 26, 38], [4, 68, 84], [16, 124, 136], [72, 190, 190], [206, 250, 240]];

/// Colours of the mask: nothing, a cell, its nucleus.
const KINDS: [[u8; 3]; 3] = [[10, 10, 16], [38, 92, 110], [244, 180, 60]];

/// Ten digits of 3 x 5 dots, three bits for each row, from the top.
const DIGITS: [u16; 10] =
    [0o75557, 0o26227, 0o71747, 0o71717, 0o55711, 0o74717, 0o74757, 0o71122, 0o75757, 0o75717];

/// What the picture shows of a sample.
pub struct Tile {
    bodies: Fold,
    fibres: Fold,
    mask: Fold,
    label: i64,
}

impl Tile {
    /// Of the fields of a sample of crops of this shape.
    pub fn of([image, mask, label]: Elements<'_>, shape: [usize; 3]) -> Tile {
        let (bodies, fibres) = image.split_at(image.len() / 2);
        Tile {
            bodies: fold(bodies, shape),
            fibres: fold(fibres, shape),
            mask: highest(mask, shape),
            label: label.try_into().map_or(0, i64::from_le_bytes),
        }
    }
}

/// One folded crop.
struct Fold {
    height: usize,
    width: usize,
    pixels: Vec<f32>,
}

/// Folds a crop of `shape` (z, y, x), given as the f32 bytes of a batch.
fn fold(data: &[u8], shape: [usize; 3]) -> Fold {
    let [depth, height, width] = shape;
    let value = |at: usize| {
        let bytes = &data[4 * at..4 * at + 4];
        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    let slice = height * width;
    let mut pixels = vec![0.0f32; slice];
    for z in 1..depth - 1 {
        for (at, pixel) in pixels.iter_mut().enumerate() {
            let here = z * slice + at;
            let mean = (value(here - slice) + value(here) + value(here + slice)) * (1.0 / 3.0);
            *pixel = pixel.max(mean);
        }
    }
    Fold { height, width, pixels }
}

/// The highest of the bytes along z.
fn highest(data: &[u8], [_, height, width]: [usize; 3]) -> Fold {
    let mut pixels = vec![0.0f32; height * width];
    for slice in data.chunks_exact(height * width) {
        for (pixel, byte) in pixels.iter_mut().zip(slice) {
            *pixel = pixel.max(f32::from(*byte));
        }
    }
    Fold { height, width, pixels }
}

/// Writes the tiles as a PNG.
pub fn write(path: &Path, tiles: &[Tile]) -> Outcome<()> {
    let body_range = range(tiles.iter().map(|tile| &tile.bodies), 0.05, 0.997);
    let fibre_range = range(tiles.iter().map(|tile| &tile.fibres), 0.30, 0.996);
    let (panel, panel_height) = (tiles[0].mask.width * SCALE, tiles[0].mask.height * SCALE);
    let tile_width = 2 * panel + LABEL_WIDTH + 2 * GAP;
    let width = TILES[0] * (tile_width + 3 * GAP) + GAP;
    let height = TILES[1] * (panel_height + GAP) + GAP;
    let mut image: Vec<u8> = (0..width * height).flat_map(|_| BACKGROUND.map(to_byte)).collect();
    for (number, tile) in tiles.iter().enumerate() {
        let left = 2 * GAP + number % TILES[0] * (tile_width + 3 * GAP);
        let top = GAP + number / TILES[0] * (panel_height + GAP);
        let mut put = |y: usize, x: usize, colour: [u8; 3]| {
            let at = ((top + y) * width + left + x) * 3;
            image[at..at + 3].copy_from_slice(&colour);
        };
        for y in 0..panel_height {
            for x in 0..panel {
                let warm = colour(&EMBER, level(sample(&tile.bodies, y, x), body_range));
                let cold = colour(&GLACIER, level(sample(&tile.fibres, y, x), fibre_range));
                // Light adds up, but never beyond white.
                let light = |channel| 1.0 - (1.0 - warm[channel]) * (1.0 - cold[channel]);
                put(y, x, std::array::from_fn(|channel| to_byte(light(channel))));
                let kind = tile.mask.pixels[y / SCALE * tile.mask.width + x / SCALE] as usize;
                put(y, panel + GAP + x, KINDS[kind]);
            }
        }
        let left = 2 * (panel + GAP);
        digits(tile.label, |y, x| put((panel_height - 5 * DOT) / 2 + y, left + x, KINDS[2]));
    }
    encode(path, width, height, &image)
}

/// Draws a number in the middle of a label.
fn digits(number: i64, mut put: impl FnMut(usize, usize)) {
    let text = number.to_string();
    let left = (LABEL_WIDTH + DOT).saturating_sub(text.len() * 4 * DOT) / 2;
    for (place, digit) in text.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_digit()) {
        let dots = DIGITS[usize::from(digit - b'0')];
        for pixel in 0..5 * DOT * 3 * DOT {
            let (y, x) = (pixel / (3 * DOT), pixel % (3 * DOT));
            let column = left + place * 4 * DOT + x;
            if dots >> (14 - (y / DOT * 3 + x / DOT)) & 1 == 1 && column < LABEL_WIDTH {
                put(y, column);
            }
        }
    }
}

/// A sample in characters: its image, its mask, its label.
pub fn text(tile: &Tile) -> String {
    const CELL: [usize; 2] = [8, 4];
    let bounds = range([&tile.bodies].into_iter(), 0.05, 0.997);
    let columns = tile.mask.width / CELL[1];
    let mut text = format!("{:columns$}  {:columns$}  label\n", "image", "mask");
    for row in 0..tile.mask.height / CELL[0] {
        let mean = |fold: &Fold, column: usize| {
            let cell = (0..CELL[0] * CELL[1]).map(|at| {
                let (y, x) = (row * CELL[0] + at / CELL[1], column * CELL[1] + at % CELL[1]);
                fold.pixels[y * fold.width + x]
            });
            cell.sum::<f32>() / (CELL[0] * CELL[1]) as f32
        };
        let image =
            |column| b" .:-=+*#%@"[(level(mean(&tile.bodies, column), bounds) * 9.99) as usize];
        let mask = |column| b" .#"[(mean(&tile.mask, column) + 0.5) as usize];
        text.extend((0..columns).map(|column| char::from(image(column))));
        text.push_str("  ");
        text.extend((0..columns).map(|column| char::from(mask(column))));
        if row == 0 {
            text.push_str(&format!("  {} cells", tile.label));
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

fn encode(path: &Path, width: usize, height: usize, image: &[u8]) -> Outcome<()> {
    let file = File::create(path).map_err(|error| Fault::path(path, &error))?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(image)?;
        writer.finish()
    });
    written.map_err(|error| Fault::Failed(format!("{}: {error}", path.display())))
}

/// The values below which the two shares of all pixels lie.
fn range<'f>(folds: impl Iterator<Item = &'f Fold>, low: f64, high: f64) -> [f32; 2] {
    let mut all: Vec<f32> = folds.flat_map(|fold| fold.pixels.iter().copied()).collect();
    all.sort_unstable_by(f32::total_cmp);
    let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize];
    [at(low), at(high)]
}

/// 0 to 1 within the range, dark values lifted a little.
fn level(value: f32, [low, high]: [f32; 2]) -> f32 {
    ((value - low) / (high - low).max(1.0)).clamp(0.0, 1.0).powf(0.75)
}

/// The fold at a pixel of the picture: cubic (Catmull-Rom) between the centres of voxels.
fn sample(fold: &Fold, y: usize, x: usize) -> f32 {
    let weights = |t: f32| {
        let (t2, t3) = (t * t, t * t * t);
        [
            0.5 * (2.0 * t2 - t3 - t),
            0.5 * (3.0 * t3 - 5.0 * t2 + 2.0),
            0.5 * (4.0 * t2 - 3.0 * t3 + t),
            0.5 * (t3 - t2),
        ]
    };
    let place = |pixel: usize| (pixel as f32 + 0.5) / SCALE as f32 - 0.5;
    let (py, px) = (place(y), place(x));
    let (wy, wx) = (weights(py - py.floor()), weights(px - px.floor()));
    let clamp = |at: f32, count: usize| (at.max(0.0) as usize).min(count - 1);
    let mut sum = 0.0;
    for (dy, weight_y) in wy.iter().enumerate() {
        let row = clamp(py.floor() + dy as f32 - 1.0, fold.height) * fold.width;
        for (dx, weight_x) in wx.iter().enumerate() {
            let column = clamp(px.floor() + dx as f32 - 1.0, fold.width);
            sum += fold.pixels[row + column] * weight_y * weight_x;
        }
    }
    sum
}

/// A colour of a table, straight lines between its entries.
fn colour(table: &[[u8; 3]], level: f32) -> [f32; 3] {
    let place = level * (table.len() - 1) as f32;
    let entry = (place as usize).min(table.len() - 2);
    let part = place - entry as f32;
    core::array::from_fn(|channel| {
        let (from, to) = (f32::from(table[entry][channel]), f32::from(table[entry + 1][channel]));
        (from + (to - from) * part) / 255.0
    })
}

fn to_byte(light: f32) -> u8 {
    (light * 255.0 + 0.5) as u8
}
