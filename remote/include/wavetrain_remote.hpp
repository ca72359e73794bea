/* wavetrain_remote.hpp - the C++17 surface of wavetrain_remote.h.
 *
 * SPDX-License-Identifier: MIT
 *
 * wavetrain_remote.h is the manual; this header has what C++ adds: a move-only client. Header-only,
 * no exceptions, no allocation.
 *
 *     wavetrain::remote::config settings;             // the defaults, read_done set
 *     settings.region = "eu-central-1";
 *     wavetrain::remote::client client;
 *     char why[1024];
 *     if (!wavetrain::remote::client::open(settings, client, why))
 *         return fail(why);
 *     client.attach(config);                          // both hooks, for wavetrain::loader::open
 *
 * The client must outlive the loaders that use it: declare it before them.
 */
#ifndef WAVETRAIN_REMOTE_HPP
#define WAVETRAIN_REMOTE_HPP

#include "wavetrain_remote.h"

#include <cstddef>
#include <utility>

namespace wavetrain {
namespace remote {

/* A config with the defaults, and wavetrain_read_done. */
struct config : wavetrain_remote_config {
    config() noexcept {
        /* The base alone is filled: its bytes are the C struct. */
        wavetrain_remote_config *base = this;
        wavetrain_remote_config_default(base, sizeof *base);
        read_done = wavetrain_read_done;
    }
};

/* An open client, or none. Closed when it is destroyed or assigned to. */
class [[nodiscard]] client {
public:
    client() noexcept = default;
    client(client &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    client &operator=(client &&other) noexcept {
        if (this != &other) {
            close();
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    client(const client &) = delete;
    client &operator=(const client &) = delete;
    ~client() { close(); }

    /* Opens a client in `out`; false: why has the text. */
    template <std::size_t Bytes>
    static bool open(const wavetrain_remote_config &settings, client &out,
                     char (&why)[Bytes]) noexcept {
        out.close();
        return wavetrain_remote_open(&settings, &out.handle_, why, Bytes) == WAVETRAIN_REMOTE_OK;
    }
    static bool open(const wavetrain_remote_config &settings, client &out) noexcept {
        out.close();
        return wavetrain_remote_open(&settings, &out.handle_, nullptr, 0) == WAVETRAIN_REMOTE_OK;
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    wavetrain_remote_client *get() const noexcept { return handle_; }

    /* Fills both hooks of a loader's config; false: the client is not open. */
    bool attach(wavetrain_config &of) const noexcept {
        return wavetrain_remote_files_hook(handle_, &of.files) == WAVETRAIN_REMOTE_OK &&
               wavetrain_remote_store_hook(handle_, &of.store) == WAVETRAIN_REMOTE_OK;
    }

    /* The text of the last failure; its bytes without the NUL, 0 where there was none. */
    template <std::size_t Bytes> std::size_t last_error(char (&text)[Bytes]) const noexcept {
        return wavetrain_remote_last_error(handle_, text, Bytes);
    }

    /* The figures; all zeros where the client is not open. */
    wavetrain_remote_stats_view stats() const noexcept {
        wavetrain_remote_stats_view view{};
        view.struct_size = sizeof view;
        wavetrain_remote_stats(handle_, &view);
        return view;
    }

    /* Ends what is in flight with a failure; later calls work. */
    void cancel() const noexcept { wavetrain_remote_cancel(handle_); }

    /* Closes it now. Close the loaders that use it first. */
    void close() noexcept { wavetrain_remote_close(std::exchange(handle_, nullptr)); }

private:
    wavetrain_remote_client *handle_ = nullptr;
};

} // namespace remote
} // namespace wavetrain

#endif /* WAVETRAIN_REMOTE_HPP */
