// SPDX-License-Identifier: BSD-3-Clause
#include "base/settings.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <set>

#include "base/log.hpp"

using namespace via::base;

namespace {

using Environment = std::vector<std::string>;

Settings from_environment(const Environment& environment) {
    return Settings::read(environment, "", "");
}

Settings from_file(std::string_view text) {
    return Settings::read({}, text, "test.conf");
}

const SettingValue& value_of(const Settings& settings, std::string_view name) {
    for (const SettingValue& value : settings.values())
        if (value.declaration->name == name) return value;
    ADD_FAILURE() << name << " is not declared";
    return settings.values().front();
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

TEST(SettingsTable, IsInOrder) {
    std::set<std::string_view> names;
    for (const SettingDeclaration& declaration : setting_declarations()) {
        const std::string name(declaration.name);
        EXPECT_TRUE(names.insert(declaration.name).second) << name << " is declared twice";
        EXPECT_TRUE(name.starts_with("VIA_")) << name;
        EXPECT_TRUE(declaration.meaning.ends_with('.')) << name;
        EXPECT_TRUE(std::isupper(static_cast<unsigned char>(declaration.meaning.front()))) << name;
        EXPECT_EQ(declaration.kind == SettingKind::Choice, !declaration.choices.empty()) << name;
        if (declaration.kind == SettingKind::Number || declaration.kind == SettingKind::Bytes) {
            EXPECT_LT(declaration.minimum, declaration.maximum) << name;
            if (declaration.power_of_two) {
                EXPECT_TRUE(std::has_single_bit(declaration.minimum)) << name;
                EXPECT_TRUE(std::has_single_bit(declaration.maximum)) << name;
            }
        }
    }
}

TEST(SettingsTable, DefaultsAreValidWhenWrittenByAUser) {
    const Settings defaults = from_environment({});
    EXPECT_TRUE(defaults.warnings().empty());
    Environment written;
    for (const SettingDeclaration& declaration : setting_declarations())
        if (!declaration.default_value.empty())
            written.push_back(std::string(declaration.name) + "=" +
                              std::string(declaration.default_value));
    const Settings explicitly = from_environment(written);
    EXPECT_TRUE(explicitly.warnings().empty()) << explicitly.warnings().front();
    for (std::size_t i = 0; i < defaults.values().size(); ++i) {
        EXPECT_EQ(defaults.values()[i].number, explicitly.values()[i].number);
        EXPECT_EQ(defaults.values()[i].text, explicitly.values()[i].text);
        EXPECT_EQ(defaults.values()[i].origin, SettingOrigin::Default);
    }
}

TEST(Settings, DefaultsAreThoseOfTheTable) {
    const Settings settings = from_environment({});
    EXPECT_EQ(settings.text("VIA_LOG"), "warning");
    EXPECT_TRUE(settings.flag("VIA_AGENT_START"));
    EXPECT_FALSE(settings.flag("VIA_PIN_MEMORY"));
    EXPECT_EQ(settings.number("VIA_SHM_RING_BYTES"), 524288u);
    EXPECT_EQ(settings.number("VIA_SHM_CHUNK_BYTES"), 16384u);
    EXPECT_EQ(settings.number("VIA_KMEM_ARENA_BYTES"), 64u << 20);
    EXPECT_EQ(settings.number("VIA_SPIN_US"), 50u);
    EXPECT_EQ(settings.text("VIA_HOSTS_FILE"), "/etc/vip_hosts");
    EXPECT_EQ(settings.text("VIA_AGENT_SOCKET"), "");
}

TEST(Settings, EnvironmentWinsOverFileWinsOverDefault) {
    const Settings settings =
        Settings::read({"VIA_SPIN_US=7", "PATH=/bin", "NOT_VIA_LOG=x"},
                       "VIA_SPIN_US=8\nVIA_MAX_DESCRIPTORS=32\n", "test.conf");
    EXPECT_TRUE(settings.warnings().empty());
    EXPECT_EQ(settings.number("VIA_SPIN_US"), 7u);
    EXPECT_EQ(value_of(settings, "VIA_SPIN_US").origin, SettingOrigin::Environment);
    EXPECT_EQ(settings.number("VIA_MAX_DESCRIPTORS"), 32u);
    EXPECT_EQ(value_of(settings, "VIA_MAX_DESCRIPTORS").origin, SettingOrigin::File);
    EXPECT_EQ(value_of(settings, "VIA_LOG").origin, SettingOrigin::Default);
    EXPECT_EQ(settings.file_name(), "test.conf");
}

TEST(Settings, BytesTakeSuffixes) {
    for (const auto& [text, bytes] : std::vector<std::pair<std::string, std::uint64_t>>{
             {"4096", 4096}, {"4k", 4096}, {"4K", 4096}, {"1m", 1 << 20}, {"4M", 4 << 20}}) {
        const Settings settings = from_environment({"VIA_SHM_RING_BYTES=" + text});
        EXPECT_TRUE(settings.warnings().empty()) << text;
        EXPECT_EQ(settings.number("VIA_SHM_RING_BYTES"), bytes) << text;
        EXPECT_EQ(settings.text("VIA_SHM_RING_BYTES"), text);
    }
    EXPECT_EQ(from_environment({"VIA_KMEM_ARENA_BYTES=4g"}).number("VIA_KMEM_ARENA_BYTES"),
              std::uint64_t{4} << 30);
}

TEST(Settings, FlagsAndChoicesIgnoreCase) {
    for (const std::string yes : {"1", "yes", "ON", "True"})
        EXPECT_TRUE(from_environment({"VIA_PIN_MEMORY=" + yes}).flag("VIA_PIN_MEMORY")) << yes;
    for (const std::string no : {"0", "no", "Off", "FALSE"})
        EXPECT_FALSE(from_environment({"VIA_AGENT_START=" + no}).flag("VIA_AGENT_START")) << no;
    EXPECT_EQ(from_environment({"VIA_SHM_PATH=CMA"}).text("VIA_SHM_PATH"), "cma");
}

TEST(Settings, RefusedValuesNameTheRangeAndLeaveTheDefault) {
    struct Case {
        std::string name, given, allowed;
    };
    for (const Case& c : {
             Case{"VIA_SPIN_US", "many", "0 to 1000000"},
             Case{"VIA_SPIN_US", "-1", "0 to 1000000"},
             Case{"VIA_SPIN_US", "1000001", "0 to 1000000"},
             Case{"VIA_SPIN_US", "1k", "0 to 1000000"},
             Case{"VIA_SPIN_US", "18446744073709551617", "0 to 1000000"},
             Case{"VIA_SPIN_US", "5 ", "0 to 1000000"},
             Case{"VIA_SHM_RING_BYTES", "2k", "4k to 4m, a power of two"},
             Case{"VIA_SHM_RING_BYTES", "5000", "4k to 4m, a power of two"},
             Case{"VIA_SHM_RING_BYTES", "8m", "4k to 4m, a power of two"},
             Case{"VIA_SHM_RING_BYTES", "k", "4k to 4m, a power of two"},
             Case{"VIA_SHM_RING_BYTES", "99999999999999g", "4k to 4m, a power of two"},
             Case{"VIA_SHM_CHUNK_BYTES", "255", "256 to 32k"},
             Case{"VIA_SHM_CHUNK_BYTES", "32769", "256 to 32k"},
             Case{"VIA_SHM_PATH", "fast", "auto, kmem, cma or ring"},
             Case{"VIA_SHM_PATH", "auto|kmem", "auto, kmem, cma or ring"},
             Case{"VIA_AGENT_START", "2", "0 or 1"},
         }) {
        const Settings settings = from_environment({c.name + "=" + c.given});
        const SettingValue& value = value_of(settings, c.name);
        ASSERT_EQ(settings.warnings().size(), 1u) << c.name << "=" << c.given;
        const std::string& warning = settings.warnings().front();
        EXPECT_TRUE(has(warning, "the environment: " + c.name)) << warning;
        EXPECT_TRUE(has(warning, "'" + c.given + "'")) << warning;
        EXPECT_TRUE(has(warning, "allowed: " + c.allowed)) << warning;
        EXPECT_TRUE(has(warning, "using " + std::string(value.declaration->default_value)))
            << warning;
        EXPECT_EQ(value.problem, warning);
        EXPECT_EQ(value.origin, SettingOrigin::Default);
        EXPECT_EQ(value.text, value.declaration->default_value);
    }
}

TEST(Settings, BordersAreInside) {
    for (const std::string text : {"0", "1000000"})
        EXPECT_TRUE(from_environment({"VIA_SPIN_US=" + text}).warnings().empty());
}

TEST(Settings, AnEmptyVariableIsAsIfNotSet) {
    const Settings settings = from_environment({"VIA_SPIN_US=", "VIA_LOG=", "VIA_HOSTS_FILE="});
    EXPECT_TRUE(settings.warnings().empty());
    EXPECT_EQ(settings.number("VIA_SPIN_US"), 50u);
    EXPECT_EQ(settings.text("VIA_LOG"), "warning");
    // But a text may be empty on purpose.
    EXPECT_EQ(settings.text("VIA_HOSTS_FILE"), "");
}

TEST(Settings, UnknownNamesGetTheNearestKnownOne) {
    for (const auto& [unknown, nearest] : std::vector<std::pair<std::string, std::string>>{
             {"VIA_LGO", "VIA_LOG"},
             {"VIA_LOGS", "VIA_LOG"},
             {"VIA_SHM_RING", "VIA_SHM_RING_BYTES"},
             {"VIA_SHM_RINGBYTES", "VIA_SHM_RING_BYTES"},
             {"VIA_SPIN_MS", "VIA_SPIN_US"},
             {"VIA_shm_path", "VIA_SHM_PATH"},
             {"VIA_HOST_FILE", "VIA_HOSTS_FILE"}}) {
        const Settings settings = from_environment({unknown + "=1"});
        ASSERT_EQ(settings.warnings().size(), 1u) << unknown;
        EXPECT_EQ(settings.warnings().front(), "the environment: there is no setting " + unknown +
                                                   "; the nearest name is " + nearest);
    }
    const Settings settings = from_environment({"VIA_ZZZZZZZZZZZZZ=1"});
    ASSERT_EQ(settings.warnings().size(), 1u);
    EXPECT_TRUE(has(settings.warnings().front(), "`via config` lists all"));
}

TEST(SettingsFile, TakesCommentsBlanksAndAnyLineEnds) {
    const Settings settings = from_file(
        "# a comment\r\n"
        "\r\n"
        "  VIA_SPIN_US =  9  \r\n"
        "\tVIA_LOG=info # why not\n"
        "VIA_HOSTS_FILE=/tmp/a#b\n"
        "#VIA_PIN_MEMORY=1\n"
        "VIA_STRICT_PTAG=1");
    EXPECT_TRUE(settings.warnings().empty()) << settings.warnings().front();
    EXPECT_EQ(settings.number("VIA_SPIN_US"), 9u);
    EXPECT_EQ(settings.text("VIA_LOG"), "info");
    EXPECT_EQ(settings.text("VIA_HOSTS_FILE"), "/tmp/a#b");
    EXPECT_FALSE(settings.flag("VIA_PIN_MEMORY"));
    EXPECT_TRUE(settings.flag("VIA_STRICT_PTAG"));
}

TEST(SettingsFile, WarningsNameFileAndLine) {
    const Settings settings = from_file(
        "VIA_SPIN_US=1\n"
        "what is this\n"
        "VIA_LGO=info\n"
        "VIA_LOG=loud\n"
        "LOG=info\n"
        "VIA_CONFIG=/etc/other.conf\n");
    ASSERT_EQ(settings.warnings().size(), 5u);
    EXPECT_TRUE(has(settings.warnings()[0], "test.conf:2: expected NAME=value"));
    EXPECT_TRUE(has(settings.warnings()[1], "test.conf:3: there is no setting VIA_LGO"));
    EXPECT_TRUE(has(settings.warnings()[2], "test.conf:4: VIA_LOG can not be 'loud'"));
    EXPECT_TRUE(has(settings.warnings()[3], "test.conf:5: there is no setting LOG"));
    EXPECT_TRUE(has(settings.warnings()[3], "VIA_LOG"));
    EXPECT_TRUE(has(settings.warnings()[4], "test.conf:6: VIA_CONFIG"));
    EXPECT_EQ(settings.text("VIA_CONFIG"), "");
    EXPECT_EQ(settings.number("VIA_SPIN_US"), 1u);
}

TEST(SettingsFile, TheLastLineOfANameCounts) {
    EXPECT_EQ(from_file("VIA_SPIN_US=1\nVIA_SPIN_US=2\n").number("VIA_SPIN_US"), 2u);
    const Settings recovered = from_file("VIA_SPIN_US=x\nVIA_SPIN_US=2\n");
    EXPECT_EQ(recovered.number("VIA_SPIN_US"), 2u);
    EXPECT_EQ(value_of(recovered, "VIA_SPIN_US").problem, "");
    EXPECT_EQ(recovered.warnings().size(), 1u);
}

TEST(SettingsFile, BytesThatAreNoTextDoNotReachTheTerminal) {
    const Settings settings =
        from_file(std::string("\x1b[2J\x01\n") + std::string(500, 'x') + "=1\n");
    ASSERT_EQ(settings.warnings().size(), 2u);
    for (const std::string& warning : settings.warnings()) {
        EXPECT_LT(warning.size(), 200u);
        for (const char c : warning)
            EXPECT_GE(static_cast<unsigned char>(c), 0x20);
    }
}

TEST(SettingsFile, TheUsersIsTheNamedOneOrTheOneInTheHome) {
    struct Kept {
        explicit Kept(const char* variable) : name(variable) {
            if (const char* now = std::getenv(variable); now != nullptr) value = now;
        }
        ~Kept() { setenv(name, value.c_str(), 1); }
        Kept(const Kept&) = delete;
        Kept& operator=(const Kept&) = delete;
        const char* name;
        std::string value;  // empty is as good as not set
    };
    const Kept config("VIA_CONFIG");
    const Kept folder("XDG_CONFIG_HOME");
    const Kept home("HOME");
    setenv("VIA_CONFIG", "/some/where.conf", 1);
    EXPECT_EQ(user_settings_file(), "/some/where.conf");
    setenv("VIA_CONFIG", "", 1);
    setenv("XDG_CONFIG_HOME", "/config", 1);
    EXPECT_EQ(user_settings_file(), "/config/viaduct/viaduct.conf");
    setenv("XDG_CONFIG_HOME", "not/absolute", 1);
    setenv("HOME", "/home/me", 1);
    EXPECT_EQ(user_settings_file(), "/home/me/.config/viaduct/viaduct.conf");
}

TEST(Settings, ContradictionsAreSettled) {
    const Settings low_water = from_environment({"VIA_PD_SMALL_RING=32", "VIA_PD_LOW_WATER=32"});
    EXPECT_EQ(low_water.number("VIA_PD_LOW_WATER"), 8u);
    ASSERT_EQ(low_water.warnings().size(), 1u);
    EXPECT_TRUE(has(low_water.warnings().front(), "VIA_PD_LOW_WATER=32 is too large"));
    // A default that no longer fits gives way without a word.
    const Settings small_ring = from_environment({"VIA_PD_SMALL_RING=8"});
    EXPECT_EQ(small_ring.number("VIA_PD_LOW_WATER"), 2u);
    EXPECT_TRUE(small_ring.warnings().empty());
    const Settings chunk = from_environment({"VIA_SHM_CHUNK_BYTES=32k", "VIA_SHM_RING_BYTES=64k"});
    EXPECT_EQ(chunk.number("VIA_SHM_CHUNK_BYTES"), 16384u);
    EXPECT_EQ(chunk.text("VIA_SHM_CHUNK_BYTES"), "16k");
    ASSERT_EQ(chunk.warnings().size(), 1u);
    EXPECT_TRUE(has(chunk.warnings().front(), "VIA_SHM_CHUNK_BYTES=32k is too large"));
    EXPECT_TRUE(has(chunk.warnings().front(), "a quarter of VIA_SHM_RING_BYTES"));
    const Settings fits = from_environment({"VIA_SHM_CHUNK_BYTES=32k"});
    EXPECT_EQ(fits.number("VIA_SHM_CHUNK_BYTES"), 32768u);
    EXPECT_TRUE(fits.warnings().empty());
    const Settings least = from_environment({"VIA_SHM_RING_BYTES=4k"});
    EXPECT_EQ(least.number("VIA_SHM_CHUNK_BYTES"), 1024u);
    EXPECT_TRUE(least.warnings().empty());
}

TEST(Settings, ANameThatIsNotDeclaredIsAnErrorInTheLogAndNoCrash) {
    const LogLevel before = log_level();
    set_log_level(LogLevel::Error);
    const Settings settings = from_environment({});
    testing::internal::CaptureStderr();
    EXPECT_EQ(settings.number("VIA_NOTHING"), 0u);
    EXPECT_EQ(settings.text("VIA_NOTHING"), "");
    EXPECT_TRUE(has(testing::internal::GetCapturedStderr(), "VIA_NOTHING"));
    set_log_level(before);
}

/// Settings::get() reads the process's own environment once, so each case has its own process.
class OwnProcess : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "viaduct-settings-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override {
        for (const std::string& file : files_)
            unlink(file.c_str());
        rmdir((folder_ + "/viaduct").c_str());
        rmdir(folder_.c_str());
    }

    std::string write_file(const std::string& name, std::string_view text) {
        const std::string path = folder_ + "/" + name;
        std::ofstream(path) << text;
        files_.push_back(path);
        return path;
    }

    /// Runs `check` in a child with only these VIA_ variables set; returns what it wrote to
    /// standard error. The check's `false` makes the test fail.
    template <class Check>
    std::string in_child(const Environment& environment, Check check) {
        testing::internal::CaptureStderr();
        const pid_t child = fork();
        if (child == 0) {
            std::vector<std::string> names;
            for (char** entry = environ; *entry != nullptr; ++entry)
                if (std::string_view(*entry).starts_with("VIA_"))
                    names.emplace_back(*entry, std::string_view(*entry).find('='));
            for (const std::string& name : names)
                unsetenv(name.c_str());
            for (const std::string& entry : environment)
                setenv(entry.substr(0, entry.find('=')).c_str(),
                       entry.substr(entry.find('=') + 1).c_str(), 1);
            _exit(check(Settings::get()) && &Settings::get() == &Settings::get() ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        const std::string errors = testing::internal::GetCapturedStderr();
        EXPECT_EQ(status, 0) << errors;
        return errors;
    }

    std::string folder_;

  private:
    std::vector<std::string> files_;
};

TEST_F(OwnProcess, ReadsTheFileThatViaConfigNames) {
    const std::string path = write_file("my.conf", "VIA_SPIN_US=11\nVIA_LGO=x\n");
    const std::string errors = in_child({"VIA_CONFIG=" + path}, [&](const Settings& settings) {
        return settings.number("VIA_SPIN_US") == 11 && settings.file_name() == path &&
               settings.text("VIA_CONFIG") == path;
    });
    // The warning comes once, however often the settings are asked for.
    EXPECT_TRUE(has(errors, "warning: " + path + ":2: there is no setting VIA_LGO"));
    EXPECT_EQ(errors.find("VIA_LGO"), errors.rfind("VIA_LGO"));
}

TEST_F(OwnProcess, ReadsTheUsersFile) {
    ASSERT_EQ(mkdir((folder_ + "/viaduct").c_str(), 0700), 0);
    write_file("viaduct/viaduct.conf", "VIA_SPIN_US=12\n");
    in_child({"XDG_CONFIG_HOME=" + folder_},
             [](const Settings& settings) { return settings.number("VIA_SPIN_US") == 12; });
}

TEST_F(OwnProcess, AMissingFileIsAWarningOnlyIfItWasNamed) {
    const std::string errors =
        in_child({"VIA_CONFIG=" + folder_ + "/nothing"},
                 [](const Settings& settings) { return settings.file_name().empty(); });
    EXPECT_TRUE(has(errors, "cannot read the settings file " + folder_ + "/nothing"));
    EXPECT_EQ(in_child({"XDG_CONFIG_HOME=" + folder_}, [](const Settings&) { return true; }), "");
}

TEST_F(OwnProcess, SetsTheLogLevel) {
    in_child({"VIA_LOG=debug", "VIA_CONFIG=/dev/null"},
             [](const Settings&) { return log_level() == LogLevel::Debug; });
    EXPECT_EQ(in_child({"VIA_LOG=silent", "VIA_NO_SUCH=1", "VIA_CONFIG=/dev/null"},
                       [](const Settings&) { return log_level() == LogLevel::Silent; }),
              "");
}

TEST_F(OwnProcess, AnEndlessFileIsNotReadForEver) {
    const std::string errors =
        in_child({"VIA_CONFIG=/dev/zero"}, [](const Settings&) { return true; });
    EXPECT_TRUE(has(errors, "longer than 1 MiB"));
}

}  // namespace
