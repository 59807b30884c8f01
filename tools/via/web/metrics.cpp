// SPDX-License-Identifier: BSD-3-Clause
#include "web/metrics.hpp"

#include <fmt/format.h>

#include <functional>
#include <string_view>

namespace via::tool::web {
namespace {

std::string escaped(std::string_view text) {
    std::string result;
    for (const char character : text) {
        if (character == '\\' || character == '"')
            (result += '\\') += character;
        else if (character == '\n')
            result += "\\n";
        else
            result += character;
    }
    return result;
}

class Labels {
  public:
    Labels& add(std::string_view name, std::string_view value) {
        text_ += fmt::format("{}{}=\"{}\"", text_.empty() ? "" : ",", name, escaped(value));
        return *this;
    }
    [[nodiscard]] std::string text() const { return text_.empty() ? "" : "{" + text_ + "}"; }

  private:
    std::string text_;
};

/// One family after the other, as the format asks for: a name, and then all who have it.
class Exposition {
  public:
    void family(std::string_view name, std::string_view type, std::string_view meaning) {
        name_ = name;
        pending_ = fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, meaning, name, type);
    }
    void counter(std::string_view name, std::string_view meaning) {
        family(name, "counter", meaning);
    }
    void gauge(std::string_view name, std::string_view meaning) { family(name, "gauge", meaning); }
    template <class Number>
    void sample(const Labels& labels, Number value) {
        // A family without anybody says nothing.
        text_ += pending_;
        pending_.clear();
        text_ += fmt::format("{}{} {}\n", name_, labels.text(), value);
    }
    [[nodiscard]] std::string take() { return std::move(text_); }

  private:
    std::string text_;
    std::string pending_;
    std::string name_;
};

Labels labels_of(const HostView& host) {
    Labels labels;
    if (!host.name.empty()) labels.add("host", host.name);
    return labels;
}

Labels labels_of(const HostView& host, const ReportedProcess& process) {
    Labels labels = labels_of(host);
    labels.add("pid", std::to_string(process.agent.pid)).add("program", process.agent.program);
    return labels;
}

using Visit = std::function<void(const HostView&, const ReportedProcess&)>;

/// Those whose counters could be read.
void each_process(const std::vector<HostView>& hosts, const Visit& visit) {
    for (const HostView& host : hosts)
        for (const ReportedProcess& process : host.processes)
            if (process.problem.empty()) visit(host, process);
}

void add_agents(Exposition& text, const std::vector<HostView>& hosts) {
    text.gauge("via_agent_up", "Whether the kernel agent of the host runs.");
    for (const HostView& host : hosts)
        text.sample(labels_of(host), host.agent ? 1 : 0);
    text.gauge("via_agent_uptime_seconds", "How long the kernel agent has run.");
    for (const HostView& host : hosts)
        if (host.agent) text.sample(labels_of(host), host.agent->uptime_seconds);
    text.gauge("via_processes", "Processes that use Viaduct.");
    for (const HostView& host : hosts)
        text.sample(labels_of(host), host.processes.size());
    const auto of_agent = [&](const char* name, const char* meaning, auto member) {
        text.gauge(name, meaning);
        for (const HostView& host : hosts)
            for (const ReportedProcess& process : host.processes)
                text.sample(labels_of(host, process), process.agent.*member);
    };
    of_agent("via_process_connections", "Connected VIs.", &ka::ProcessStatus::connections);
    of_agent("via_process_waiting", "Connection requests that wait for the other side.",
             &ka::ProcessStatus::waiting);
    of_agent("via_process_regions", "Regions of registered memory.", &ka::ProcessStatus::regions);
    of_agent("via_process_registered_bytes", "Registered memory.",
             &ka::ProcessStatus::registered_bytes);
    of_agent("via_process_kmem_bytes", "Memory from the kernel agent that peers can map.",
             &ka::ProcessStatus::kmem_bytes);
}

void add_paths(Exposition& text, const std::vector<HostView>& hosts) {
    const auto by_path = [&](const char* name, const char* meaning, auto member) {
        text.counter(name, meaning);
        each_process(hosts, [&](const HostView& host, const ReportedProcess& process) {
            for (std::size_t path = 0; path < base::data_paths; ++path) {
                Labels labels = labels_of(host, process);
                labels.add("path", base::data_path_name(static_cast<base::DataPath>(path)));
                text.sample(labels, (process.counters.totals.*member)[path]);
            }
        });
    };
    by_path("via_sent_messages_total", "Messages sent, by the way that their bytes took.",
            &ViSnapshot::sent_messages);
    by_path("via_received_messages_total", "Messages received, by the way that their bytes took.",
            &ViSnapshot::received_messages);
}

void add_totals(Exposition& text, const std::vector<HostView>& hosts) {
    struct Total {
        const char* name;
        const char* meaning;
        std::uint64_t ViSnapshot::*member;
    };
    for (const Total& total :
         {Total{"via_sent_bytes_total", "Bytes of messages sent.", &ViSnapshot::sent_bytes},
          Total{"via_received_bytes_total", "Bytes of messages received.",
                &ViSnapshot::received_bytes},
          Total{"via_rdma_writes_total", "RDMA writes.", &ViSnapshot::rdma_writes},
          Total{"via_rdma_reads_total", "RDMA reads.", &ViSnapshot::rdma_reads},
          Total{"via_rdma_bytes_total", "Bytes of RDMA writes and reads.", &ViSnapshot::rdma_bytes},
          Total{"via_send_stalls_total", "Posts that found the channel full.",
                &ViSnapshot::send_stalls},
          Total{"via_big_ring_posts_total", "Descriptors that went to the big ring.",
                &ViSnapshot::big_ring_posts},
          Total{"via_big_ring_refills_total", "Refills of the small ring from the big one.",
                &ViSnapshot::big_ring_refills},
          Total{"via_completed_in_error_total", "Descriptors that were completed in error.",
                &ViSnapshot::completed_in_error},
          Total{"via_sleeps_total", "Waits that had to sleep.", &ViSnapshot::sleeps},
          Total{"via_wakes_sent_total", "Sleeping peers that were woken.",
                &ViSnapshot::wakes_sent}}) {
        text.counter(total.name, total.meaning);
        each_process(hosts, [&](const HostView& host, const ReportedProcess& process) {
            text.sample(labels_of(host, process), process.counters.totals.*total.member);
        });
    }
    text.counter("via_errors_total", "Errors that the process has recorded.");
    each_process(hosts, [&](const HostView& host, const ReportedProcess& process) {
        std::uint64_t errors = 0;
        for (const ErrorSnapshot& error : process.counters.errors)
            errors += error.count;
        text.sample(labels_of(host, process), errors);
    });
}

void add_vis(Exposition& text, const std::vector<HostView>& hosts) {
    text.gauge("via_vis", "VIs in use.");
    each_process(hosts, [&](const HostView& host, const ReportedProcess& process) {
        text.sample(labels_of(host, process), process.counters.vis.size());
    });
    const auto of_vi = [&](const char* name, const char* meaning, const auto& value) {
        text.counter(name, meaning);
        each_process(hosts, [&](const HostView& host, const ReportedProcess& process) {
            std::size_t shown = 0;
            for (const ViSnapshot& vi : process.counters.vis) {
                if (shown++ == most_vis_shown) break;
                Labels labels = labels_of(host, process);
                labels.add("vi", std::to_string(vi.slot)).add("device", vi.device);
                text.sample(labels, value(vi));
            }
        });
    };
    of_vi("via_vi_sent_messages_total", "Messages that a VI has sent.",
          [](const ViSnapshot& vi) { return vi.all_sent(); });
    of_vi("via_vi_received_messages_total", "Messages that a VI has received.",
          [](const ViSnapshot& vi) { return vi.all_received(); });
    of_vi("via_vi_sent_bytes_total", "Bytes that a VI has sent.",
          [](const ViSnapshot& vi) { return vi.sent_bytes; });
    of_vi("via_vi_received_bytes_total", "Bytes that a VI has received.",
          [](const ViSnapshot& vi) { return vi.received_bytes; });
}

void add_messages(Exposition& text, const std::vector<HostView>& hosts) {
    const auto each = [&](const Visit& visit) {
        each_process(hosts, [&](const HostView& host, const ReportedProcess& process) {
            if (process.counters.messages.present()) visit(host, process);
        });
    };
    text.counter("via_mpi_sent_messages_total",
                 "Messages of MPI and libfabric sent, by protocol and size.");
    each([&](const HostView& host, const ReportedProcess& process) {
        for (std::size_t protocol = 0; protocol < base::message_protocols; ++protocol)
            for (std::size_t size = 0; size < base::message_size_classes; ++size) {
                Labels labels = labels_of(host, process);
                labels.add("protocol", message_protocol_name(protocol))
                    .add("size", message_size_class_name(size));
                text.sample(labels, process.counters.messages.sent[protocol][size]);
            }
    });
    struct Number {
        const char* name;
        const char* meaning;
        std::uint64_t MessageSnapshot::*member;
    };
    const auto add = [&](const Number& number) {
        each([&](const HostView& host, const ReportedProcess& process) {
            text.sample(labels_of(host, process), process.counters.messages.*number.member);
        });
    };
    for (const Number& number :
         {Number{"via_mpi_received_messages_total", "Messages of MPI and libfabric received.",
                 &MessageSnapshot::received},
          Number{"via_mpi_unexpected_messages_total", "Messages that came before their receive.",
                 &MessageSnapshot::unexpected},
          Number{"via_mpi_noops_sent_total", "Packets sent only to give credits back.",
                 &MessageSnapshot::noops_sent},
          Number{"via_mpi_noops_received_total", "Packets received that only gave credits back.",
                 &MessageSnapshot::noops_received},
          Number{"via_mpi_credit_stalls_total", "Sends that had to wait for credits.",
                 &MessageSnapshot::credit_stalls},
          Number{"via_mpi_starvations_total", "Windows full of messages that nobody asked for.",
                 &MessageSnapshot::starvations},
          Number{"via_mpi_fallbacks_total", "RDMA that became R3.", &MessageSnapshot::fallbacks},
          Number{"via_mpi_copied_bytes_total", "Bytes copied out of packets.",
                 &MessageSnapshot::copied_bytes},
          Number{"via_mpi_registration_hits_total", "Buffers that were still registered.",
                 &MessageSnapshot::registration_hits},
          Number{"via_mpi_registration_misses_total", "Buffers that had to be registered.",
                 &MessageSnapshot::registration_misses}}) {
        text.counter(number.name, number.meaning);
        add(number);
    }
    for (const Number& number :
         {Number{"via_mpi_unexpected_messages", "Messages that wait for their receive now.",
                 &MessageSnapshot::unexpected_now},
          Number{"via_mpi_vbufs", "Packet buffers in use.", &MessageSnapshot::vbufs_in_use},
          Number{"via_mpi_registered_bytes", "Memory kept registered.",
                 &MessageSnapshot::registered_bytes},
          Number{"via_mpi_least_credits", "Credits of the connection that has the fewest.",
                 &MessageSnapshot::least_credits}}) {
        text.gauge(number.name, number.meaning);
        add(number);
    }
}

void add_links(Exposition& text, const std::vector<HostView>& hosts) {
    const auto of_link = [&](const auto& value) {
        each_process(hosts, [&](const HostView& host, const ReportedProcess& process) {
            for (const LinkSnapshot& link : process.counters.links) {
                Labels labels = labels_of(host, process);
                labels.add("vi", std::to_string(link.vi_slot))
                    .add("slot", std::to_string(link.slot))
                    .add("link", link.text);
                text.sample(labels, value(link));
            }
        });
    };
    text.gauge("via_link_up", "Whether a link of a connection carries data.");
    of_link([](const LinkSnapshot& link) { return link_state_name(link.state) == "up" ? 1 : 0; });
    struct Number {
        const char* name;
        const char* meaning;
        std::uint64_t LinkSnapshot::*member;
    };
    for (const Number& number :
         {Number{"via_link_sent_packets_total", "Packets sent.", &LinkSnapshot::sent_packets},
          Number{"via_link_sent_bytes_total", "Bytes sent.", &LinkSnapshot::sent_bytes},
          Number{"via_link_received_packets_total", "Packets received.",
                 &LinkSnapshot::received_packets},
          Number{"via_link_received_bytes_total", "Bytes received.", &LinkSnapshot::received_bytes},
          Number{"via_link_lost_packets_total", "Packets sent that got lost.",
                 &LinkSnapshot::lost_packets},
          Number{"via_link_duplicate_packets_total", "Packets that came twice.",
                 &LinkSnapshot::duplicate_packets},
          Number{"via_link_timeouts_total", "Times that nothing came back in time.",
                 &LinkSnapshot::timeouts},
          Number{"via_link_state_changes_total", "Changes of the link's state.",
                 &LinkSnapshot::changes}}) {
        text.counter(number.name, number.meaning);
        of_link([&](const LinkSnapshot& link) { return link.*number.member; });
    }
    text.gauge("via_link_round_trip_seconds", "Smoothed round trip.");
    of_link([](const LinkSnapshot& link) { return static_cast<double>(link.round_trip_ns) / 1e9; });
    text.gauge("via_link_window_bytes", "What may be under way.");
    of_link([](const LinkSnapshot& link) { return link.window_bytes; });
    text.gauge("via_link_in_flight_bytes", "What is under way.");
    of_link([](const LinkSnapshot& link) { return link.bytes_in_flight; });
}

}  // namespace

std::string metrics_text(const std::vector<HostView>& hosts) {
    Exposition text;
    add_agents(text, hosts);
    add_paths(text, hosts);
    add_totals(text, hosts);
    add_vis(text, hosts);
    add_messages(text, hosts);
    add_links(text, hosts);
    return text.take();
}

}  // namespace via::tool::web
