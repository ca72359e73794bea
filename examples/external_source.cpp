/* external_source.cpp: batches of images of several shapes and their labels, from an iterator.
 *
 *     tools/archive.sh out
 *     c++ -std=c++17 -Iout examples/external_source.cpp out/libwavetrain.a -lpthread -ldl -o source
 */
#include "wavetrain_source.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

const std::uint64_t shapes[][2] = { { 48, 64 }, { 64, 48 }, { 32, 32 } };

/* Stands for a folder of pictures: a batch at a time, images of 8 bits and three channels. */
struct pictures {
    std::uint32_t batches, samples, given = 0;
    std::mt19937 random{};
    void rewind() { given = 0, random.seed(0); }
    bool operator()(wavetrain::given_batch &out) {
        for (std::uint32_t row = 0; row < samples && given < batches; row++) {
            const std::uint32_t label = std::uint32_t(random() % 3);
            const std::uint64_t h = shapes[label][0], w = shapes[label][1];
            std::vector<std::uint8_t> image(h * w * 3);
            std::generate(image.begin(), image.end(), [&] { return std::uint8_t(random()); });
            out.sample(row).array("image", image.data(), { h, w, 3 }).value("label", label);
        }
        return given++ < batches;
    }
};

int main() {
    const wavetrain::field fields[] = { wavetrain::field("image", WAVETRAIN_F32, { 64, 64, 3 }),
                                        wavetrain::field("label", WAVETRAIN_I64) };
    wavetrain::config config;
    config.use_fields(fields).samples_per_batch = 4;
    wavetrain::source_settings settings;
    settings.expect(0, WAVETRAIN_U8).layout(0, "HWC").copy = true; /* an image dies with the call */
    settings.cycle = wavetrain::cycle::raise;
    wavetrain::source batches(pictures{ 5, 4 });
    std::vector<unsigned char> room(batches.need(config, settings));
    batches.open(config, settings, std::move(room)).ignore(); /* see status() */
    for (int epoch = 0; epoch < 2 && batches.loader(); epoch++)
        for (const wavetrain::batch &b : batches) {
            const auto pixels = b.as<const float>();
            const auto label = b.field("label").as<const std::int64_t>();
            std::printf("epoch %d: images of", epoch);
            for (std::uint32_t i = 0; i < b.sample_count(); i++)
                std::printf(" %lux%lu (%ld)", b.filled_shape(i)[0], b.filled_shape(i)[1], label[i]);
            const double sum = std::accumulate(pixels.begin(), pixels.end(), 0.0);
            std::printf(", mean %.1f\n", sum / double(pixels.size()));
        }
    return batches.status() ? 0 : (std::fputs(batches.error().text, stderr), 1);
}
