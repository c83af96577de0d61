#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "server/process.h"

namespace clef::server {
namespace {

using prometheus::Histogram;

const Histogram::BucketBoundaries& latency_buckets() {  // seconds: a cached hit to a queue in trouble
  static const Histogram::BucketBoundaries buckets = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                      0.25,  0.5,    1,     2.5,  5,     10,   30};
  return buckets;
}

const Histogram::BucketBoundaries& request_buckets() {  // requests a pass
  static const Histogram::BucketBoundaries buckets = {1, 2, 4, 8, 16, 32, 64};
  return buckets;
}

const Histogram::BucketBoundaries& token_buckets() {  // tokens a pass
  static const Histogram::BucketBoundaries buckets = {128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  return buckets;
}

}  // namespace

struct Metrics::State {
  prometheus::Registry registry;

  prometheus::Family<prometheus::Counter>& requests = prometheus::BuildCounter()
                                                          .Name("clef_http_requests_total")
                                                          .Help("Requests answered, by route, status and key")
                                                          .Register(registry);
  prometheus::Family<prometheus::Counter>& tokens = prometheus::BuildCounter()
                                                        .Name("clef_input_tokens_total")
                                                        .Help("Input tokens of answered requests, by key")
                                                        .Register(registry);
  prometheus::Family<Histogram>& seconds = prometheus::BuildHistogram()
                                               .Name("clef_http_request_seconds")
                                               .Help("From a request's head to its answer's last byte, by route")
                                               .Register(registry);
  Histogram& pass_seconds = prometheus::BuildHistogram()
                                .Name("clef_pass_seconds")
                                .Help("Time of a forward pass")
                                .Register(registry)
                                .Add({}, latency_buckets());
  Histogram& pass_requests = prometheus::BuildHistogram()
                                 .Name("clef_pass_requests")
                                 .Help("Requests in a forward pass")
                                 .Register(registry)
                                 .Add({}, request_buckets());
  Histogram& pass_tokens = prometheus::BuildHistogram()
                               .Name("clef_pass_tokens")
                               .Help("Tokens in a forward pass")
                               .Register(registry)
                               .Add({}, token_buckets());
  prometheus::Counter& failed_passes = counter("clef_failed_passes_total", "Forward passes that the device failed");
  prometheus::Counter& connections = counter("clef_connections_total", "Connections accepted");
  prometheus::Counter& refused =
      counter("clef_connections_refused_total", "Connections refused or closed for want of room");
  prometheus::Counter& gone = counter("clef_clients_gone_total", "Requests dropped because their client went away");
  prometheus::Counter& lost_lines =
      counter("clef_access_log_lost_total", "Lines that the access log did not take in time");
  prometheus::Gauge& open = gauge("clef_connections", "Connections open");
  prometheus::Gauge& ready = gauge("clef_ready", "1 when new work is taken");
  prometheus::Gauge& waiting_requests = gauge("clef_waiting_requests", "Requests waiting for host or device");
  prometheus::Gauge& waiting_tokens = gauge("clef_waiting_tokens", "Tokens waiting for host or device");
  prometheus::Gauge& waiting_bytes = gauge("clef_waiting_bytes", "Bytes of bodies waiting for the host");
  prometheus::Gauge& running_requests = gauge("clef_running_requests", "Requests in the running pass");
  prometheus::Gauge& resident = gauge("process_resident_memory_bytes", "Resident memory");
  prometheus::Gauge& descriptors = gauge("process_open_fds", "Open file descriptors");

  prometheus::Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
  }
  prometheus::Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
  }
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

void Metrics::count_request(const RequestCount& request) {
  state_->requests.Add({{"route", request.route}, {"status", std::to_string(request.status)}, {"key", request.key}})
      .Increment();
  state_->seconds.Add({{"route", request.route}}, latency_buckets()).Observe(request.seconds);
  if (request.input_tokens > 0) {
    state_->tokens.Add({{"key", request.key}}).Increment(static_cast<double>(request.input_tokens));
  }
}

void Metrics::count_pass(const PassReport& pass) {
  state_->pass_seconds.Observe(pass.seconds);
  state_->pass_requests.Observe(static_cast<double>(pass.requests));
  state_->pass_tokens.Observe(static_cast<double>(pass.tokens));
  if (pass.has_failed) state_->failed_passes.Increment();
}

void Metrics::count_connection() { state_->connections.Increment(); }
void Metrics::count_refused_connection() { state_->refused.Increment(); }
void Metrics::set_open_connections(std::int64_t count) { state_->open.Set(static_cast<double>(count)); }
void Metrics::count_client_gone() { state_->gone.Increment(); }
void Metrics::count_lost_log_line() { state_->lost_lines.Increment(); }

std::string Metrics::text(const Scheduler::Load& load, bool is_ready) {
  state_->ready.Set(is_ready ? 1 : 0);
  state_->waiting_requests.Set(static_cast<double>(load.waiting_requests));
  state_->waiting_tokens.Set(static_cast<double>(load.waiting_tokens));
  state_->waiting_bytes.Set(static_cast<double>(load.waiting_bytes));
  state_->running_requests.Set(static_cast<double>(load.running_requests));
  const ProcessUse use = process_use();
  state_->resident.Set(static_cast<double>(use.resident_bytes));
  state_->descriptors.Set(static_cast<double>(use.open_descriptors));
  return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

}  // namespace clef::server
