// What the run writes: CSV files with the configuration on top, and JSON files.

#ifndef BDR_STAN_DRIVER_OUTPUTS_HPP
#define BDR_STAN_DRIVER_OUTPUTS_HPP

#include "arguments.hpp"
#include "files.hpp"

#include <stan/callbacks/json_writer.hpp>
#include <stan/callbacks/unique_stream_writer.hpp>
#include <stan/math/rev/core/profiling.hpp>
#include <stan/model/model_base.hpp>
#include <stan/version.hpp>

#include <ctime>
#include <iostream>
#include <memory>

namespace driver {

using CsvWriter = stan::callbacks::unique_stream_writer<std::ofstream>;
using JsonWriter = stan::callbacks::json_writer<std::ofstream>;

// An option that names a file, and the file.
using NamedFile = std::pair<std::string, std::string>;

inline void require_different(const NamedFile& input, const std::string& output) {
  if (!input.second.empty() && same_file(input.second, output))
    throw std::invalid_argument("Filename conflict, " + input.first + " file " + input.second +
                                " and output file names are identical, must be different.");
}

// Opens output files and remembers them, so that the end of the run can tell whether
// all of them could be written in full. No input and no other output is overwritten.
class OutputFiles {
 public:
  OutputFiles(int sig_figs, std::vector<NamedFile> inputs)
      : sig_figs_(sig_figs), inputs_(std::move(inputs)) {}

  void check_new(const std::string& path) const {
    for (const auto& input : inputs_) require_different(input, path);
    for (const auto& file : files_) require_different({"output", file.first}, path);
  }

  CsvWriter csv(const std::string& path) { return CsvWriter(open(path), "# "); }
  JsonWriter json(const std::string& path) { return JsonWriter(open(path)); }

  // Writers that write nothing.
  static CsvWriter no_csv() { return CsvWriter(nullptr); }
  static JsonWriter no_json() { return JsonWriter(); }

  // The streams belong to the writers: call this while those are alive.
  void check() const {
    for (const auto& file : files_)
      if (!file.second->flush())
        throw std::runtime_error("Can't write all of output file \"" + file.first +
                                 "\"; is the disk full?");
  }

 private:
  std::unique_ptr<std::ofstream> open(const std::string& path) {
    check_new(path);
    auto stream = std::make_unique<std::ofstream>(path);
    if (!*stream)
      throw std::invalid_argument("Can't open output file \"" + path +
                                  "\": " + std::strerror(errno));
    if (sig_figs_ > -1) stream->precision(sig_figs_);
    files_.emplace_back(path, stream.get());
    return stream;
  }

  int sig_figs_;
  std::vector<NamedFile> inputs_;
  std::vector<std::pair<std::string, std::ofstream*>> files_;
};

// ---------------------------------------------------------------- top of a CSV file

inline std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", std::gmtime(&now));
  return text;
}

inline void write_version_and_model(CsvWriter& writer, const std::string& model) {
  writer("stan_version_major = " + stan::MAJOR_VERSION);
  writer("stan_version_minor = " + stan::MINOR_VERSION);
  writer("stan_version_patch = " + stan::PATCH_VERSION);
  writer("model = " + model);
}

// What every output file of the run says about the run.
struct Heading {
  const CommandLine& arguments;
  const stan::model::model_base& model;
  std::string start = now_utc();

  void write(CsvWriter& writer) const {
    write_version_and_model(writer, model.model_name());
    writer("start_datetime = " + start);
    arguments.print(writer.get_stream(), "# ");
    for (const auto& line : model.model_compile_info()) writer(line);
  }

  void write_diagnostic(CsvWriter& writer) const {
    write_version_and_model(writer, model.model_name());
    arguments.print(writer.get_stream(), "# ");
  }

  void write_config(JsonWriter& writer) const;
};

// Lends Stan's JSON writer to the tree of arguments.
class JsonWriterSink final : public JsonSink {
 public:
  explicit JsonWriterSink(JsonWriter& writer) : writer_(writer) {}
  void begin(const std::string& name) override { writer_.begin_record(name); }
  void end() override { writer_.end_record(); }
  void write(const std::string& name, bool v) override { writer_.write(name, v); }
  void write(const std::string& name, double v) override { writer_.write(name, v); }
  void write(const std::string& name, long long v) override { writer_.write(name, v); }
  void write(const std::string& name, const std::string& v) override { writer_.write(name, v); }

 private:
  JsonWriter& writer_;
};

inline void Heading::write_config(JsonWriter& writer) const {
  writer.begin_record();
  writer.write("stan_major_version", stan::MAJOR_VERSION);
  writer.write("stan_minor_version", stan::MINOR_VERSION);
  writer.write("stan_patch_version", stan::PATCH_VERSION);
  writer.write("model_name", model.model_name());
  writer.write("start_datetime", start);
  JsonWriterSink sink(writer);
  arguments.print_json(sink);
  writer.write("mpi_enabled", false);
  for (const auto& line : model.model_compile_info()) {
    const std::size_t equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    writer.write(line.substr(0, equals), line.substr(equals + 3));
  }
  writer.end_record();
}

// ---------------------------------------------------------------- profile

inline void write_profile(std::ostream& out, const stan::math::profile_map& profile) {
  out << "name,thread_id,total_time,forward_time,reverse_time,chain_stack,"
         "no_chain_stack,autodiff_calls,no_autodiff_calls\n";
  for (const auto& entry : profile) {
    const auto& info = entry.second;
    out << entry.first.first << ',' << entry.first.second << ','
        << info.get_fwd_time() + info.get_rev_time() << ',' << info.get_fwd_time() << ','
        << info.get_rev_time() << ',' << info.get_chain_stack_used() << ','
        << info.get_nochain_stack_used() << ',' << info.get_num_rev_passes() << ','
        << info.get_num_no_AD_fwd_passes() << '\n';
  }
}

}  // namespace driver

#endif
