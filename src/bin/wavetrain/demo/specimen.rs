//! The procedure behind the demo's volumes: a tissue of cells as a light microscope sees it, in two
//! stains, and what of it is cell or nucleus. Every voxel is a pure function of its coordinates, so
//! that any box can be painted again and compared.
//!
//! Only additions, multiplications, divisions and square roots of f32 are used, in an order that
//! depends on the voxel alone: the same bits come out for every box around it, on every machine.
//!
//! Axes are z, y, x. Light fades with depth; z is coarser than y and x, as in most stacks.

/// What is stained.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Stain {
    /// Cell bodies with bright, textured nuclei.
    Bodies,
    /// Filaments that run through the same cells and around their nuclei.
    Fibres,
    /// No stain but the truth: 1 in a cell, 2 in its nucleus, 0 elsewhere.
    Mask,
}

/// Distance of the grid places that may hold a cell each.
const CELL_GRID: [i64; 3] = [30, 74, 74];
/// No cell reaches further from its centre than this.
const CELL_REACH: [f32; 3] = [21.0, 45.0, 45.0];
const SEED: u64 = 0x7761_7665_7472_6169;

/// Scrambles all bits (the finalizer of splitmix64).
fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A hash of a seed and a place.
fn hash(seed: u64, place: [i64; 3]) -> u64 {
    let [z, y, x] = place.map(|axis| axis as u64);
    mix(seed
        .wrapping_add(z.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_add(y.wrapping_mul(0xc2b2_ae3d_27d4_eb4f))
        .wrapping_add(x.wrapping_mul(0x1656_67b1_9e37_79f9)))
}

/// A number below `limit` that belongs to a pair of numbers.
pub fn random(number: u64, lane: u64, limit: u64) -> u64 {
    mix(mix(SEED ^ number) ^ lane) % limit
}

/// A number in [0, 1) from 16 of the bits of a hash.
fn unit(bits: u64, lane: u32) -> f32 {
    (bits >> (16 * lane) & 0xffff) as f32 / 65536.0
}

fn smoothstep(t: f32) -> f32 {
    let t = t.clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// Weights of the uniform cubic B-spline.
fn spline(t: f32) -> [f32; 4] {
    let u = 1.0 - t;
    [
        u * u * u / 6.0,
        (3.0 * t * t * t - 6.0 * t * t + 4.0) / 6.0,
        (3.0 * u * u * u - 6.0 * u * u + 4.0) / 6.0,
        t * t * t / 6.0,
    ]
}

/// Smooth noise of about unit deviation: random values on a lattice under a cubic B-spline.
struct Noise {
    seed: u64,
    step: [i64; 3],
    /// Weights along x for each voxel of a lattice cell.
    weights: Vec<[f32; 4]>,
    /// Which lattice cell (z, y), first column and column count `lattice` holds.
    key: Option<[i64; 4]>,
    /// 4 x 4 lattice values (z, y) per column.
    lattice: Vec<[f32; 16]>,
    columns: Vec<f32>,
}

impl Noise {
    fn new(seed: u64, step: [i64; 3]) -> Noise {
        let weights = (0..step[2]).map(|at| spline(at as f32 / step[2] as f32)).collect();
        let seed = mix(SEED ^ seed);
        Noise { seed, step, weights, key: None, lattice: Vec::new(), columns: Vec::new() }
    }

    /// The noise of voxels (z, y, x), (z, y, x + 1), ..
    fn row(&mut self, [z, y, x]: [i64; 3], out: &mut [f32]) {
        let step = self.step;
        let first = x.div_euclid(step[2]);
        let last = (x + out.len() as i64 - 1).div_euclid(step[2]);
        let key = [z.div_euclid(step[0]), y.div_euclid(step[1]), first, last - first + 4];
        if self.key != Some(key) {
            self.key = Some(key);
            let seed = self.seed;
            let column = |at: i64| {
                core::array::from_fn(|corner| {
                    let (dz, dy) = (corner as i64 / 4, corner as i64 % 4);
                    let bits = hash(seed, [key[0] + dz - 1, key[1] + dy - 1, at]);
                    // 5.22 makes up for what the spline takes from the deviation of [-1, 1).
                    (unit(bits, 0) * 2.0 - 1.0) * 5.22
                })
            };
            self.lattice.clear();
            self.lattice.extend((first - 1..first - 1 + key[3]).map(column));
        }
        let wz = spline(z.rem_euclid(step[0]) as f32 / step[0] as f32);
        let wy = spline(y.rem_euclid(step[1]) as f32 / step[1] as f32);
        let both: [f32; 16] = core::array::from_fn(|corner| wz[corner / 4] * wy[corner % 4]);
        self.columns.clear();
        self.columns.extend(self.lattice.iter().map(|values| {
            values.iter().zip(&both).map(|(value, weight)| value * weight).sum::<f32>()
        }));
        let mut phase = x.rem_euclid(step[2]) as usize;
        let mut column = 0;
        for value in out {
            let weights = &self.weights[phase];
            let knots = &self.columns[column..column + 4];
            *value = knots[0] * weights[0]
                + knots[1] * weights[1]
                + knots[2] * weights[2]
                + knots[3] * weights[3];
            phase += 1;
            if phase == self.weights.len() {
                phase = 0;
                column += 1;
            }
        }
    }
}

/// An ellipsoid, turned in the plane of y and x.
struct Ellipsoid {
    centre: [f32; 3],
    cos: f32,
    sin: f32,
    radii_inverse: [f32; 3],
}

impl Ellipsoid {
    /// Squared distance from the centre, 1 on the surface.
    fn distance(&self, z: f32, y: f32, x: f32) -> f32 {
        let [dz, dy, dx] = [z - self.centre[0], y - self.centre[1], x - self.centre[2]];
        let across = (dx * self.cos + dy * self.sin) * self.radii_inverse[2];
        let along = (dy * self.cos - dx * self.sin) * self.radii_inverse[1];
        let deep = dz * self.radii_inverse[0];
        across * across + along * along + deep * deep
    }
}

/// A cell: its body, its nucleus, dark spots in the nucleus, and how bright it is.
struct Cell {
    body: Ellipsoid,
    nucleus: Ellipsoid,
    nucleoli: [[f32; 3]; 2],
    nucleoli_radius_inverse: f32,
    brightness: f32,
}

impl Cell {
    /// The cell of a place of the grid, if there is one.
    fn at(place: [i64; 3]) -> Option<Cell> {
        let bits: [u64; 5] = core::array::from_fn(|lane| hash(mix(SEED + lane as u64), place));
        if unit(bits[0], 0) > 0.86 {
            return None;
        }
        let centre: [f32; 3] = core::array::from_fn(|axis| {
            let jitter = unit(bits[1], axis as u32) * 0.6 + 0.2;
            (place[axis] as f32 + jitter) * CELL_GRID[axis] as f32
        });
        // Half the angle's tangent is uniform: every direction, without a sine.
        let tangent = unit(bits[0], 1) * 2.0 - 1.0;
        let scale = 1.0 / (1.0 + tangent * tangent);
        let (cos, sin) = ((1.0 - tangent * tangent) * scale, 2.0 * tangent * scale);
        let radii = [
            9.5 + 3.5 * unit(bits[2], 0),
            19.0 + 7.0 * unit(bits[2], 1),
            27.0 + 9.0 * unit(bits[2], 2),
        ];
        let size = 0.46 + 0.08 * unit(bits[2], 3);
        let shift = |axis: usize| (unit(bits[3], axis as u32) - 0.5) * 0.25 * radii[axis];
        let heart: [f32; 3] = core::array::from_fn(|axis| centre[axis] + shift(axis));
        let nucleus_radii = [radii[0] * 0.58, radii[1] * size * 1.12, radii[2] * size];
        let nucleolus = |lane: u32| -> [f32; 3] {
            core::array::from_fn(|axis| {
                let spread = (unit(bits[3 + lane as usize], 3 - axis as u32) - 0.5) * 0.85;
                heart[axis] + spread * nucleus_radii[axis.min(1)]
            })
        };
        Some(Cell {
            body: Ellipsoid { centre, cos, sin, radii_inverse: radii.map(|radius| 1.0 / radius) },
            nucleus: Ellipsoid {
                centre: heart,
                cos,
                sin,
                radii_inverse: nucleus_radii.map(|radius| 1.0 / radius),
            },
            nucleoli: [nucleolus(0), nucleolus(1)],
            nucleoli_radius_inverse: 1.0 / (2.6 + unit(bits[4], 0)),
            brightness: 0.55 + 0.6 * unit(bits[0], 2),
        })
    }

    /// Whether the cell may reach into the half-open span of an axis.
    fn reaches(&self, axis: usize, first: i64, limit: i64) -> bool {
        let centre = self.body.centre[axis];
        let reach = CELL_REACH[axis];
        centre + reach >= first as f32 && centre - reach <= limit as f32
    }
}

/// Rows of one box, before they become counts.
#[derive(Default)]
struct Rows {
    outline: Vec<f32>,
    grain: Vec<f32>,
    fine: Vec<f32>,
    haze: Vec<f32>,
    body: Vec<f32>,
    nucleus: Vec<f32>,
    fibre: [Vec<f32>; 4],
}

/// Paints boxes of one stain. It keeps scratch memory, so each thread has its own.
pub struct Painter {
    stain: Stain,
    outline: Noise,
    grain: Noise,
    fine: Noise,
    haze: Noise,
    fibre: [Noise; 4],
    rows: Rows,
}

impl Painter {
    /// A painter of this stain.
    pub fn new(stain: Stain) -> Painter {
        let fibre = [
            Noise::new(11, [8, 11, 19]),
            Noise::new(12, [8, 11, 19]),
            Noise::new(13, [8, 19, 11]),
            Noise::new(14, [8, 19, 11]),
        ];
        Painter {
            stain,
            outline: Noise::new(1, [8, 13, 13]),
            grain: Noise::new(2, [4, 6, 6]),
            fine: Noise::new(3, [2, 3, 3]),
            haze: Noise::new(4, [48, 90, 90]),
            fibre,
            rows: Rows::default(),
        }
    }

    /// Paints the box that begins at `begin`, row-major.
    pub fn paint(&mut self, begin: [i64; 3], shape: [usize; 3], out: &mut [u16]) {
        let cells = cells_of(begin, shape);
        let mut rows = core::mem::take(&mut self.rows);
        for (number, row) in out.chunks_exact_mut(shape[2]).enumerate() {
            let z = begin[0] + (number / shape[1]) as i64;
            let y = begin[1] + (number % shape[1]) as i64;
            self.row([z, y, begin[2]], &cells, &mut rows, row);
        }
        self.rows = rows;
    }

    fn row(&mut self, place: [i64; 3], cells: &[Cell], rows: &mut Rows, out: &mut [u16]) {
        let count = out.len();
        for row in [&mut rows.outline, &mut rows.grain, &mut rows.fine, &mut rows.haze] {
            row.resize(count, 0.0);
        }
        self.outline.row(place, &mut rows.outline);
        if self.stain != Stain::Mask {
            self.grain.row(place, &mut rows.grain);
            self.haze.row(place, &mut rows.haze);
        }
        for row in [&mut rows.body, &mut rows.nucleus] {
            row.clear();
            row.resize(count, 0.0);
        }
        let is_bodies = self.stain == Stain::Bodies;
        if is_bodies {
            self.fine.row(place, &mut rows.fine);
        }
        for cell in cells {
            if cell.reaches(0, place[0], place[0]) && cell.reaches(1, place[1], place[1]) {
                add_cell(cell, place, is_bodies, rows);
            }
        }
        match self.stain {
            Stain::Bodies => expose(place, &rows.haze, out, |at| bodies(rows, at)),
            Stain::Fibres => {
                for (noise, row) in self.fibre.iter_mut().zip(&mut rows.fibre) {
                    row.resize(count, 0.0);
                    noise.row(place, row);
                }
                expose(place, &rows.haze, out, |at| fibres(rows, at));
            }
            Stain::Mask => {
                for (at, kind) in out.iter_mut().enumerate() {
                    *kind =
                        u16::from(rows.body[at] > 0.0).max(2 * u16::from(rows.nucleus[at] > 0.0));
                }
            }
        }
    }
}

/// How many cells have their centre in a box.
pub fn cells_in(begin: [i64; 3], shape: [usize; 3]) -> usize {
    let is_in = |cell: &&Cell| {
        (0..3).all(|axis| {
            let first = begin[axis] as f32;
            (first..first + shape[axis] as f32).contains(&cell.body.centre[axis])
        })
    };
    cells_of(begin, shape).iter().filter(is_in).count()
}

/// All cells that may reach into a box, in the order of the grid.
fn cells_of(begin: [i64; 3], shape: [usize; 3]) -> Vec<Cell> {
    let span = |axis: usize| {
        let limit = begin[axis] + shape[axis] as i64;
        let grid = CELL_GRID[axis];
        // A centre lies in its own place of the grid; reaches are shorter than a place.
        begin[axis].div_euclid(grid) - 1..=(limit - 1).div_euclid(grid) + 1
    };
    let mut cells = Vec::new();
    for z in span(0) {
        for y in span(1) {
            cells.extend(span(2).filter_map(|x| Cell::at([z, y, x])));
        }
    }
    cells.retain(|cell| {
        (0..3).all(|axis| cell.reaches(axis, begin[axis], begin[axis] + shape[axis] as i64))
    });
    cells
}

/// Adds what the cell leaves on a row: how much of each voxel is body and nucleus.
fn add_cell(cell: &Cell, [z, y, x]: [i64; 3], is_bodies: bool, rows: &mut Rows) {
    let count = rows.body.len() as i64;
    let centre = cell.body.centre[2];
    let first = ((centre - CELL_REACH[2]) as i64 - 1 - x).clamp(0, count) as usize;
    let limit = ((centre + CELL_REACH[2]) as i64 + 2 - x).clamp(0, count) as usize;
    let (z, y) = (z as f32, y as f32);
    for at in first..limit {
        let along = (x + at as i64) as f32;
        let bulge = 1.0 + 0.17 * rows.outline[at].clamp(-2.0, 2.0);
        let depth = 1.0 - cell.body.distance(z, y, along) * bulge;
        if depth <= 0.0 {
            continue;
        }
        let body = smoothstep(depth * 1.7) * cell.brightness;
        rows.body[at] = rows.body[at].max(body);
        let inside = 1.0 - cell.nucleus.distance(z, y, along) * (0.75 + 0.25 * bulge);
        if inside <= 0.0 {
            continue;
        }
        let mut nucleus = smoothstep(inside * 3.2) * cell.brightness;
        if is_bodies {
            for spot in &cell.nucleoli {
                let [dz, dy, dx] = [(z - spot[0]) * 1.6, y - spot[1], along - spot[2]];
                let far = (dz * dz + dy * dy + dx * dx)
                    * (cell.nucleoli_radius_inverse * cell.nucleoli_radius_inverse);
                nucleus *= 0.35 + 0.65 * smoothstep(far * 0.6);
            }
        }
        rows.nucleus[at] = rows.nucleus[at].max(nucleus);
    }
}

/// Photons of the bodies stain at a voxel of the row.
fn bodies(rows: &Rows, at: usize) -> f32 {
    let (body, nucleus) = (rows.body[at], rows.nucleus[at]);
    if body == 0.0 {
        return 0.0;
    }
    let (grain, fine) = (rows.grain[at], rows.fine[at]);
    let vesicle = (grain + 0.6 * fine - 1.9).clamp(0.0, 1.2);
    let cytoplasm = body * (300.0 + 80.0 * grain.clamp(-2.0, 2.0) + 480.0 * vesicle);
    let chromatin = (1.0 + 0.26 * grain + 0.22 * fine).clamp(0.25, 2.0);
    cytoplasm * (1.0 - 0.6 * nucleus.min(1.0)) + nucleus * chromatin * 1350.0
}

/// Photons of the fibres stain at a voxel of the row.
fn fibres(rows: &Rows, at: usize) -> f32 {
    // Two smooth fields are both zero along curves: a fibre is a tube around such a curve.
    let tube = |a: f32, b: f32, radius: f32| {
        let depth = 1.0 - (a * a + b * b) / (radius * radius);
        if depth <= 0.0 { 0.0 } else { depth * depth * depth }
    };
    let [a, b, c, d] = &rows.fibre;
    let fibre =
        tube(a[at], b[at], 0.34) + tube(c[at], d[at], 0.34) + 0.6 * tube(b[at], c[at], 0.26);
    let body = rows.body[at].min(1.0);
    let nucleus = rows.nucleus[at].min(1.0);
    let along = 1.0 + 0.18 * rows.grain[at].clamp(-2.0, 2.0);
    // Few fibres leave the cells; inside, they are as dense at the rim as in the middle.
    let stain = fibre * along * (70.0 + 980.0 * body.sqrt());
    (stain + 70.0 * body) * (1.0 - 0.85 * nucleus)
}

/// Turns photons into camera counts: haze, light lost with depth, shot noise, offset.
fn expose(place: [i64; 3], haze: &[f32], out: &mut [u16], photons: impl Fn(usize) -> f32) {
    let [z, y, x] = place;
    let depth = 1.0 / (1.0 + z as f32 * (1.0 / 420.0));
    for (at, count) in out.iter_mut().enumerate() {
        let glow = 46.0 + 13.0 * haze[at].clamp(-2.5, 2.5);
        let light = (photons(at) + glow) * depth;
        let bits = hash(SEED, [z, y, x + at as i64]);
        // The sum of four uniform numbers is close enough to a normal one.
        let lanes = unit(bits, 0) + unit(bits, 1) + unit(bits, 2) + unit(bits, 3);
        let normal = (lanes - 2.0) * 1.732;
        let value = 100.0 + light + normal * (light * 0.55 + 9.0).sqrt();
        *count = value.clamp(0.0, 65535.0) as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_voxel_is_the_same_in_every_box_around_it() {
        for stain in [Stain::Bodies, Stain::Fibres, Stain::Mask] {
            let mut painter = Painter::new(stain);
            let mut large = vec![0; 9 * 70 * 131];
            painter.paint([20, 100, 30], [9, 70, 131], &mut large);
            let mut small = vec![0; 3 * 20 * 41];
            painter.paint([23, 133, 77], [3, 20, 41], &mut small);
            for (number, value) in small.iter().enumerate() {
                let (z, y, x) = (number / 820 + 3, number / 41 % 20 + 33, number % 41 + 47);
                assert_eq!(*value, large[(z * 70 + y) * 131 + x], "{stain:?} {z} {y} {x}");
            }
        }
    }

    #[test]
    fn cells_are_counted_once_by_boxes_side_by_side() {
        let whole = cells_in([0; 3], [120, 300, 300]);
        let parts = (0..8).map(|part| {
            let place = [part / 4 * 60, part / 2 % 2 * 150, part % 2 * 150];
            cells_in(place, [60, 150, 150])
        });
        assert_eq!(parts.sum::<usize>(), whole);
        assert!((40..70).contains(&whole), "{whole}");
    }

    #[test]
    fn no_cell_reaches_past_its_bound() {
        for number in 0..4000 {
            let Some(cell) = Cell::at([number / 400, number / 20 % 20, number % 20]) else {
                continue;
            };
            // Furthest a body goes: the largest radius where the outline bulges most.
            let bulge = (1.0f32 / (1.0 - 0.17 * 2.0)).sqrt();
            for axis in 0..3 {
                let radii = cell.body.radii_inverse.map(|inverse| bulge / inverse);
                let radius = if axis == 0 { radii[0] } else { radii[1].max(radii[2]) };
                assert!(radius <= CELL_REACH[axis], "axis {axis}: {radius}");
            }
        }
    }
}
