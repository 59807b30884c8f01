// SPDX-License-Identifier: BSD-3-Clause
#include "settings_file.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/fd.hpp"
#include "result_files.hpp"

namespace via::tool {
namespace {

constexpr std::string_view blanks = " \t\r\v\f";

std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// The name that a line sets; empty if it sets none.
std::string_view name_in(std::string_view line) {
    const std::string_view content = trimmed(line);
    if (content.empty() || content.front() == '#') return {};
    const std::size_t equals = content.find('=');
    return equals == std::string_view::npos ? std::string_view()
                                            : trimmed(content.substr(0, equals));
}

/// A comment behind the value, with the blanks before it.
std::string_view comment_behind(std::string_view line) {
    for (std::size_t i = line.find('#'); i != std::string_view::npos; i = line.find('#', i + 1)) {
        if (i == 0 || (line[i - 1] != ' ' && line[i - 1] != '\t')) continue;
        const std::size_t last = line.find_last_not_of(blanks, i - 1);
        return line.substr(last + 1);
    }
    return {};
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        lines.push_back(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return lines;
}

/// Removes what it made unless it was put in place.
class TemporaryFile {
  public:
    explicit TemporaryFile(const std::string& target) : path_(target + ".XXXXXX") {
        file_.reset(mkostemp(path_.data(), O_CLOEXEC));
    }
    ~TemporaryFile() {
        if (file_.valid() && !placed_) ::unlink(path_.c_str());
    }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    [[nodiscard]] bool valid() const { return file_.valid(); }
    [[nodiscard]] bool write(std::string_view text) {
        while (!text.empty()) {
            const ssize_t count = ::write(file_.get(), text.data(), text.size());
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0) return false;
            text.remove_prefix(static_cast<std::size_t>(count));
        }
        return ::fsync(file_.get()) == 0;
    }
    [[nodiscard]] bool place(const std::string& target, mode_t mode) {
        if (::fchmod(file_.get(), mode) != 0) return false;
        placed_ = std::rename(path_.c_str(), target.c_str()) == 0;
        return placed_;
    }

  private:
    std::string path_;
    base::UniqueFd file_;
    bool placed_ = false;
};

}  // namespace

std::string rewrite_settings(std::string_view text, const NewSettings& values,
                             std::string_view mark, std::string_view comment) {
    const std::string marked = fmt::format("# {}", mark);
    std::vector<bool> written(values.size(), false);
    std::string result;
    bool commented = false;
    const auto write = [&](std::size_t index, std::string_view behind) {
        if (!commented) result += fmt::format("{} {}\n", marked, comment);
        commented = true;
        written[index] = true;
        result += fmt::format("{}={}{}\n", values[index].first, values[index].second, behind);
    };
    for (const std::string_view line : lines_of(text)) {
        if (line.starts_with(marked)) continue;
        const std::string_view name = name_in(line);
        const auto found = std::find_if(values.begin(), values.end(),
                                        [&](const auto& value) { return value.first == name; });
        if (found == values.end()) {
            result += line;
            result += '\n';
            continue;
        }
        // A second line of the same name would win over the first.
        const auto index = static_cast<std::size_t>(found - values.begin());
        if (!written[index]) write(index, comment_behind(line));
    }
    for (std::size_t i = 0; i < values.size(); ++i)
        if (!written[i]) write(i, {});
    return result;
}

base::Result<void> check_replaceable(const std::string& path) {
    struct stat now {};
    // A rename would put an ordinary file in the place of a device.
    if (::stat(path.c_str(), &now) == 0 && !S_ISREG(now.st_mode))
        return {base::Code::InvalidArgument,
                path + " is no ordinary file and is not replaced; name another one"};
    std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
    std::error_code error;
    while (!std::filesystem::exists(folder, error) && folder != folder.root_path())
        folder = folder.parent_path();
    if (::access(folder.c_str(), W_OK | X_OK) != 0)
        return base::system_error(errno,
                                  fmt::format("writing {} (the folder {})", path, folder.string()));
    return {};
}

base::Result<void> replace_file(const std::string& path, const std::string& text) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (auto possible = check_replaceable(path); !possible) return possible;
    if (!folder.empty())
        if (auto made = create_folder(folder.string()); !made) return made;
    std::string target = path;
    mode_t mode = 0644;
    struct stat now {};
    if (::stat(path.c_str(), &now) == 0) {
        mode = now.st_mode & 07777;
        std::error_code error;
        const auto real = std::filesystem::canonical(path, error);
        if (error) return base::system_error(error.value(), "finding out what " + path + " is");
        target = real.string();
    }
    TemporaryFile file(target);
    if (!file.valid()) return base::system_error(errno, "creating a file beside " + target);
    if (!file.write(text) || !file.place(target, mode))
        return base::system_error(errno, "writing " + target);
    return {};
}

}  // namespace via::tool
