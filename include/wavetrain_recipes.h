/* wavetrain_recipes.h - recipes of augmentation: random crops, flips, maps, colours, noise, erases.
 *
 * SPDX-License-Identifier: MIT
 *
 * C99 or any C++. The functions are in the archive, next to those of wavetrain.h. They fill a
 * wavetrain_augment, a wavetrain_affine, and begin, end and step of a wavetrain_box, allocate
 * nothing, and keep no state but your structs. wavetrain::recipes (Rust) and wavetrain.augment
 * (Python) are the same code. Calls on different structs may run on different threads.
 *
 *     wavetrain_augmented one = { sizeof one };
 *     wavetrain_augment augment = { sizeof augment };
 *     one.seed = 42, one.place = place;     the place that wavetrain_epoch_take_many gave
 *     one.target = &picture;                a wavetrain_box: 3 x 32 x 32 elements of an array
 *     one.augment = &augment;
 *     one.field = field;                    rank 3, channels along axis 0, axes of space 1 and 2
 *     wavetrain_recipe_begin(&one, 1);
 *     wavetrain_recipe_crop(&one, 1, "crop", 4, extents, 2);
 *     wavetrain_recipe_flip(&one, 1, "flip", 0.5f, 1);
 *     wavetrain_recipe_normalize(&one, 1, NULL, 0, &full, 1);         full = 255
 *     wavetrain_recipe_normalize(&one, 1, mean, 3, std, 3);
 *     sample.boxes = &picture;              picture.augment is set; config.augment is 1
 *
 * Draws. Each recipe draws wavetrain_below(n, key, place.position, lane), where key is that of
 * wavetrain_recipe_key and lane the number of the draw, given at each recipe below. A draw depends
 * on no other one, nor on ranks, threads and batches: a run that resumes at another number of ranks
 * gets the same pictures. Recipes of one name draw the same: an image and its mask are cropped
 * alike, and two erases of one picture need two names. A name is UTF-8, has 1 to 63 bytes and a
 * NUL.
 *
 *     h(p)      whether: the draw below 2^24 is less than p * 2^24
 *     t         a number of -1 to 1: (draw below 2^24 + 1, minus 2^23) / 2^23
 *     u         a number of 0 to 1: (draw below 2^32 + 1) / 2^32
 *     v(m)      a number of -m to m: (draw below 2^33 + 1, minus 2^32) * m / 2^32
 *
 * Order. The calls are the order, and their result is the one pass of wavetrain_augment. Each * and
 * + here is one of floats and rounds once. A recipe that would give another result than what is
 * there put through it is refused as WAVETRAIN_RECIPE_ORDER.
 *
 *     x * a + d     scale = scale * a, bias = bias * a + d, noise_sigma = noise_sigma * a,
 *                   clamp_low = clamp_low * a + d, clamp_high = clamp_high * a + d, and each erased
 *                   value v = v * a + d. A factor or term that is not there is left out. After
 *                   noise a, and after a clamp a and d, must be the same for all channels
 *     noise         not after noise, a clamp or an erase
 *     clamp         after a clamp, clamp_low and clamp_high are clamped; so are erased values
 *     an erase      is one box more, after those that are there, of 8 at most; after an affine map
 *                   too, in places of the field
 *     flip          mirrors erased boxes; not after noise or an affine map
 *     crop          not after noise, an erase or an affine map; with padding not after a crop, and
 *                   with that of WAVETRAIN_PAD_CONSTANT not after x * a + d or a clamp
 *     affine        once, after flips alone, and before all arithmetic
 */
#ifndef WAVETRAIN_RECIPES_H
#define WAVETRAIN_RECIPES_H

#include "wavetrain.h"
#include "wavetrain_epoch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WAVETRAIN_RECIPE_CHANNELS 64 /* channels with numbers of their own at most */
#define WAVETRAIN_RECIPE_ERASES 8    /* erased boxes at most */
#define WAVETRAIN_RECIPE_NO_CHANNELS UINT32_MAX

/* The answers of recipes. */
enum {
    WAVETRAIN_RECIPE_DONE = 1,
    WAVETRAIN_RECIPE_NUMBER = 0, /* a pointer or a number that the recipe does not take */
    WAVETRAIN_RECIPE_FIELD = -1, /* field, axes and box do not fit together */
    WAVETRAIN_RECIPE_NAME = -2,  /* a name of 0 or more than 63 bytes, or no UTF-8 */
    WAVETRAIN_RECIPE_CROP = -3,  /* larger than the padded box, or padding without a pad_mode */
    WAVETRAIN_RECIPE_ORDER = -4, /* no pass with the recipes before it */
    WAVETRAIN_RECIPE_ROOM = -5   /* more erased boxes, or channels, than there may be */
};

/* The field that a box fills. */
typedef struct wavetrain_recipe_field {
    uint32_t rank;           /* axes of the field, up to 16 */
    uint32_t channel_axis;   /* of the field, none of space; WAVETRAIN_RECIPE_NO_CHANNELS: none */
    uint32_t n_spatial;      /* axes of space, 0 to 3 */
    uint32_t pad_mode;       /* WAVETRAIN_PAD_ of the field */
    uint32_t spatial[3];     /* axes of the field, each once */
    uint32_t box_spatial[3]; /* the axes of the box that become them */
    uint64_t shape[WAVETRAIN_RANK_MAX]; /* extents of the field's sample, at least 1 */
} wavetrain_recipe_field;

/* Lists that a wavetrain_augment leads to. Recipes write them; do not. */
typedef struct wavetrain_recipe_room {
    float scale[WAVETRAIN_RECIPE_CHANNELS];
    float bias[WAVETRAIN_RECIPE_CHANNELS];
    float values[WAVETRAIN_RECIPE_ERASES][WAVETRAIN_RECIPE_CHANNELS];
    wavetrain_erase erase[WAVETRAIN_RECIPE_ERASES];
    uint64_t crops; /* so far */
} wavetrain_recipe_room;

/* A box, and what recipes have made of it. It is your memory: set struct_size, also of the structs
 * of augment and affine. None of it may move between wavetrain_recipe_begin and the push that
 * copies it, as augment leads into room. A list of them lies struct_size bytes apart. */
typedef struct wavetrain_augmented {
    size_t struct_size;
    uint64_t seed;              /* draws depend on it and on place */
    wavetrain_place place;
    wavetrain_box *target;      /* the box before any recipe: begin, end, step, at and rank are
                                   read; along axes of space it has 1 element or more */
    wavetrain_augment *augment; /* filled; target->augment leads to it */
    wavetrain_affine *affine;   /* NULL, or filled by wavetrain_recipe_affine */
    wavetrain_recipe_field field;
    wavetrain_recipe_room room;
} wavetrain_augmented;

/* Each function below returns one of WAVETRAIN_RECIPE_. It works on `count` boxes, one after
 * another. A box whose recipe is refused stays as it is, and so do those after it; those before it
 * have the recipe. A list of n = 0 numbers may be NULL; a list by channel has one number, or as
 * many as the field has channels. Numbers are finite, if a recipe
 * does not take infinities. */

/* Empties augment: no arithmetic, pad_goes_through 1. It is the first call. */
int32_t wavetrain_recipe_begin(wavetrain_augmented *boxes, uint64_t count);

/* Adds `padding` places at both ends of each axis of space, and keeps extents[i] places of axis i,
 * all begins equally likely. Padding reads the elements next to the box, and pad_mode gives those
 * outside of the array. Lane i: the begin, of axis i. With padding, steps are 1 or -1. */
int32_t wavetrain_recipe_crop(wavetrain_augmented *boxes, uint64_t count, const char *name,
                              uint64_t padding, const uint64_t *extents, uint32_t n_extents);

/* Flips along axis number `axis` of field.spatial with the probability p, 0 to 1. Lane 0: h(p). */
int32_t wavetrain_recipe_flip(wavetrain_augmented *boxes, uint64_t count, const char *name, float p,
                              uint32_t axis);

/* The random affine map of two or three axes of space:
 *
 *     voxel = centre of the box + shift + R * H * (place - centre of the field) / zoom
 *
 * Two axes: R turns by the angle v(degrees[0]). Three: R = R0 * R1 * R2, where Ri turns the two
 * axes other than i by v(degrees[i]). A turn of axes i < j is cos, -sin in row i and sin, cos in
 * row j. H has 1 on its diagonal and v(shear) above it: rows, then columns. A zoom is
 * zoom[0] + (zoom[1] - zoom[0]) * u; 2 shows things twice as large. A shift is v(shift times the
 * box's extent). Rows of axes that were flipped are negative. All this is in whole multiples of
 * 2^-32. Lanes 0 to 2: angles. 3: zoom. 4 to 6: shears. 7 to 9: shifts.
 *
 * The box gets begin 0 and the field's extents along these axes, and its affine. Steps were 1 or
 * -1, and places within 2^30. */
typedef struct wavetrain_motion {
    size_t struct_size;
    float degrees[3]; /* 0 to 180 */
    float zoom[2];    /* 1/256 to 256, the lower one first */
    float shear;      /* 0 to 16 */
    float shift;      /* 0 to 1 */
    uint32_t filter;  /* WAVETRAIN_NEAREST or WAVETRAIN_LINEAR */
} wavetrain_motion;
int32_t wavetrain_recipe_affine(wavetrain_augmented *boxes, uint64_t count, const char *name,
                                const wavetrain_motion *motion);

/* (x - mean) / std by channel: a = 1 / std, d = -mean / std. Without mean no d, without std no a
 * and d = -mean. A std is above 0. A std of 255 alone makes 0 to 1 of bytes. */
int32_t wavetrain_recipe_normalize(wavetrain_augmented *boxes, uint64_t count, const float *mean,
                                   uint32_t n_mean, const float *std, uint32_t n_std);

/* x * c + b: d = b = t * brightness, a = c = 1 + t * contrast. brightness is at least 0, contrast 0
 * to below 1; one that is 0 is left out. Lane 0: b. Lane 1: c. */
int32_t wavetrain_recipe_jitter(wavetrain_augmented *boxes, uint64_t count, const char *name,
                                float brightness, float contrast);

/* Normal noise of the standard deviation sigma, at least 0; noise_key is
 * wavetrain_mix(place.position, key). */
int32_t wavetrain_recipe_noise(wavetrain_augmented *boxes, uint64_t count, const char *name,
                               float sigma);

/* Numbers or infinities, low <= high. */
int32_t wavetrain_recipe_clamp(wavetrain_augmented *boxes, uint64_t count, float low, float high);

/* Erases `size` places along each axis of space around a centre, cut at the edges of the picture:
 * from centre - size / 2 on, rounded down. Along other axes it erases all. `erased` is the list by
 * channel of values, infinities among them; n_erased 0: a value of 0. Lane i: the centre. */
int32_t wavetrain_recipe_cutout(wavetrain_augmented *boxes, uint64_t count, const char *name,
                                uint64_t size, const float *erased, uint32_t n_erased);

/* Erases a rectangle of two axes of space with the probability p. Its area is a part
 * scale[0] + (scale[1] - scale[0]) * u of the picture's. height / width is r, and log2(r) is drawn
 * by u between the logarithms of ratio. Sides are sqrt(area * r) and sqrt(area / r), rounded,
 * at least 1 and at most the picture's. scale is above 0 and up to 1, NULL: 0.02, 0.2. ratio is
 * 1/256 to 256, NULL: 0.3, 3.3. The lower one is first. A picture has 2^48 places at most.
 * Lanes 0: h(p). 1: area. 2: ratio. 3, 4: the begins. */
int32_t wavetrain_recipe_random_erase(wavetrain_augmented *boxes, uint64_t count, const char *name,
                                      float p, const float *scale, const float *ratio,
                                      const float *erased, uint32_t n_erased);

/* The key that a recipe draws with, for draws of your own: wavetrain_key of the seed, the epoch and
 * FNV-1a (64 bits, RFC 9923) of the name. 0 for a name that is refused. */
uint64_t wavetrain_recipe_key(uint64_t seed, uint64_t epoch, const char *name);

/* The reason of an answer, and what to do. Lives as long as the library. */
const char *wavetrain_recipe_text(int32_t answer);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* WAVETRAIN_RECIPES_H */
