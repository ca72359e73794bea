//! The demo's picture: crops of both stains as seen from above, in false colours, side by side.
//!
//! A crop is folded along z as it is delivered (the brightest of the local means of three slices,
//! so that noise does not win), and only the folded image is kept.

use crate::fault::{Fault, Outcome};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Tiles beside and above each other.
pub const TILES: [usize; 2] = [4, 3];
/// Pixels of the picture per voxel.
const SCALE: usize = 2;
const GAP: usize = 6;
const BACKGROUND: [f32; 3] = [0.012, 0.012, 0.02];

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

/// One folded crop.
pub struct Fold {
    height: usize,
    width: usize,
    pixels: Vec<f32>,
}

/// Folds a crop of `shape` (z, y, x), given as the f32 bytes of a batch.
pub fn fold(data: &[u8], shape: [usize; 3]) -> Fold {
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

/// Writes the tiles, each of a `bodies` and a `fibres` fold of one place, as a PNG.
pub fn write(path: &Path, bodies: &[Fold], fibres: &[Fold]) -> Outcome<()> {
    let (body_range, fibre_range) = (range(bodies, 0.05, 0.997), range(fibres, 0.30, 0.996));
    let (tile_height, tile_width) = (bodies[0].height * SCALE, bodies[0].width * SCALE);
    let width = TILES[0] * tile_width + (TILES[0] + 1) * GAP;
    let height = TILES[1] * tile_height + (TILES[1] + 1) * GAP;
    let mut image: Vec<u8> = (0..width * height).flat_map(|_| BACKGROUND.map(to_byte)).collect();
    for (number, (body, fibre)) in bodies.iter().zip(fibres).enumerate() {
        let left = GAP + number % TILES[0] * (tile_width + GAP);
        let top = GAP + number / TILES[0] * (tile_height + GAP);
        for y in 0..tile_height {
            for x in 0..tile_width {
                let warm = colour(&EMBER, level(sample(body, y, x), body_range));
                let cold = colour(&GLACIER, level(sample(fibre, y, x), fibre_range));
                let at = ((top + y) * width + left + x) * 3;
                for channel in 0..3 {
                    // Light adds up, but never beyond white.
                    let light = 1.0 - (1.0 - warm[channel]) * (1.0 - cold[channel]);
                    image[at + channel] = to_byte(light);
                }
            }
        }
    }
    encode(path, width, height, &image)
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
fn range(folds: &[Fold], low: f64, high: f64) -> [f32; 2] {
    let mut all: Vec<f32> = folds.iter().flat_map(|fold| fold.pixels.iter().copied()).collect();
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
