// SPDX-License-Identifier: BSD-3-Clause
#include "memory_use.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

namespace via::bench {

namespace {

namespace fs = std::filesystem;

using FileIdentity = std::pair<dev_t, ino_t>;
using FileBytes = std::map<FileIdentity, std::uint64_t>;

/// Memory files have names, but no place in the file system.
bool is_memory_file(const std::string& target) {
    return target.starts_with("/memfd:");
}

/// All entries of a folder of links (/proc/PID/fd, /proc/PID/map_files) that are memory files.
void add_memory_files(const fs::path& folder, FileBytes& files) {
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator(folder, failure)) {
        const fs::path target = fs::read_symlink(entry.path(), failure);
        if (failure || !is_memory_file(target.string())) continue;
        struct stat status {};
        if (::stat(entry.path().c_str(), &status) != 0) continue;
        files[{status.st_dev, status.st_ino}] = static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
}

/// Mapped memory files without an open descriptor, whose pages only root may count: their whole
/// extent, which is more rather than less.
void add_mapped_extents(pid_t process, FileBytes& files) {
    std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
    for (std::string line; std::getline(maps, line);) {
        unsigned long long begin = 0, end = 0, offset = 0, inode = 0;
        unsigned major_number = 0, minor_number = 0;
        int name_at = 0;
        if (std::sscanf(line.c_str(), "%llx-%llx %*s %llx %x:%x %llu %n", &begin, &end, &offset,
                        &major_number, &minor_number, &inode, &name_at) != 6 ||
            !is_memory_file(line.substr(static_cast<std::size_t>(name_at)))) {
            continue;
        }
        // The map shows the device in another form than stat; the inode number is what both share.
        const bool counted = std::any_of(files.begin(), files.end(), [&](const auto& file) {
            return file.first.second == inode && file.first.first != 0;
        });
        if (counted) continue;
        std::uint64_t& bytes = files[{0, static_cast<ino_t>(inode)}];
        bytes = std::max<std::uint64_t>(bytes, offset + (end - begin));
    }
}

}  // namespace

std::int64_t kilobyte_line(std::string_view text, std::string_view name) {
    while (!text.empty()) {
        const auto end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
        if (!line.starts_with(name) || line.substr(name.size(), 1) != ":") continue;
        line.remove_prefix(name.size() + 1);
        line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
        std::int64_t value = 0;
        const auto parsed = std::from_chars(line.data(), line.data() + line.size(), value);
        if (parsed.ec == std::errc()) return value * 1024;
    }
    return -1;
}

base::Result<MemoryUse> memory_of(const std::vector<pid_t>& processes) {
    MemoryUse use;
    FileBytes files;
    for (const pid_t process : processes) {
        const std::string folder = "/proc/" + std::to_string(process);
        std::ifstream file(folder + "/smaps_rollup");
        std::ostringstream text;
        text << file.rdbuf();
        const std::int64_t own = kilobyte_line(text.str(), "Pss_Anon");
        const std::int64_t all = kilobyte_line(text.str(), "Pss");
        if (own < 0 || all < 0) {
            return base::system_error(errno == 0 ? ENOENT : errno,
                                      "read the memory of process " + std::to_string(process) +
                                          " from " + folder + "/smaps_rollup");
        }
        use.private_bytes += static_cast<std::uint64_t>(own);
        use.proportional_bytes += static_cast<std::uint64_t>(all);
        add_memory_files(folder + "/fd", files);
        add_memory_files(folder + "/map_files", files);
    }
    for (const pid_t process : processes)
        add_mapped_extents(process, files);
    for (const auto& file : files)
        use.shared_bytes += file.second;
    return use;
}

}  // namespace via::bench
