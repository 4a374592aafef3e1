// What all methods share: the model, the configuration, logging and output files.

#ifndef BDR_STAN_DRIVER_RUN_HPP
#define BDR_STAN_DRIVER_RUN_HPP

#include "inputs.hpp"
#include "outputs.hpp"

#include <stan/callbacks/interrupt.hpp>
#include <stan/callbacks/stream_logger.hpp>

namespace driver {

// Every file that the run reads, one for each chain where there are several.
inline std::vector<NamedFile> input_files(CommandLine& arguments) {
  const std::string method = arguments.choice("method");
  const int id = arguments.integer("id");
  std::vector<NamedFile> inputs = {{"data", arguments.text("data/file")}};
  int n = 1;
  const auto add = [&](const std::string& option, const std::string& path) {
    inputs.emplace_back(option, path);
    const auto parts = split_suffix(path);
    for (int i = 0; n > 1 && i < n; ++i)
      inputs.emplace_back(option, parts.first + numbered(id + i) + parts.second);
  };
  if (method == "sample") n = arguments.integer("method/sample/num_chains");
  if (method == "pathfinder") n = arguments.integer("method/pathfinder/num_paths");
  if (method == "generate_quantities") {
    n = arguments.integer("method/generate_quantities/num_chains");
    add("fitted_params", arguments.text("method/generate_quantities/fitted_params"));
  }
  add("init", arguments.text("init"));
  if (method == "sample" && arguments.choice("method/sample/algorithm") == "hmc")
    add("metric_file", arguments.text("method/sample/algorithm/hmc/metric_file"));
  if (method == "laplace") add("mode", arguments.text("method/laplace/mode"));
  if (method == "log_prob") {
    add("constrained_params", arguments.text("method/log_prob/constrained_params"));
    add("unconstrained_params", arguments.text("method/log_prob/unconstrained_params"));
  }
  return inputs;
}

struct Run {
  Run(CommandLine& command_line, Model& compiled_model)
      : arguments(command_line),
        model(compiled_model),
        seed(static_cast<unsigned>(command_line.get<long long>("random/seed"))),
        id(command_line.integer("id")),
        refresh(command_line.integer("output/refresh")),
        files(command_line.integer("output/sig_figs"), input_files(command_line)),
        heading{command_line, compiled_model} {}

  CommandLine& arguments;
  Model& model;
  unsigned seed;
  int id;
  int refresh;
  OutputFiles files;
  Heading heading;
  stan::callbacks::interrupt interrupt;  // does nothing: a signal ends the process
  stan::callbacks::stream_logger logger{std::cout, std::cout, std::cout, std::cerr, std::cerr};
  stan::callbacks::writer ignored;  // initial values on the unconstrained scale

  const std::string& output_file() const { return arguments.text("output/file"); }
  const std::string& diagnostic_file() const { return arguments.text("output/diagnostic_file"); }

  // "_3" for the third of several chains, nothing for a chain alone.
  std::string tag(int i, int n) const { return n > 1 ? numbered(id + i) : ""; }

  CsvWriter output() { return files.csv(csv_name(output_file())); }

  std::vector<CsvWriter> outputs(int n) {
    std::vector<CsvWriter> writers;
    for (int i = 0; i < n; ++i) writers.push_back(files.csv(csv_name(output_file(), tag(i, n))));
    return writers;
  }

  CsvWriter diagnostics(int i = 0, int n = 1) {
    if (diagnostic_file().empty()) return OutputFiles::no_csv();
    return files.csv(csv_name(diagnostic_file(), tag(i, n)));
  }

  JsonWriter diagnostics_json() {
    if (diagnostic_file().empty()) return OutputFiles::no_json();
    return files.json(json_name(diagnostic_file()));
  }

  Inits inits(int n = 1) const { return read_inits(arguments.text("init"), id, n); }

  void write_heading(CsvWriter& output) { heading.write(output); }

  // All that a method without diagnostics of its own writes to the diagnostic file.
  void write_diagnostic_heading(CsvWriter& diagnostics) {
    if (!diagnostic_file().empty()) heading.write_diagnostic(diagnostics);
  }

  void write_config() {
    if (!arguments.flag("output/save_cmdstan_config")) return;
    const std::string path = json_name(output_file(), "_config");
    files.check_new(path);
    OutputFiles config_files(-1, {});  // printed as on the console, whatever sig_figs is
    JsonWriter config = config_files.json(path);
    heading.write_config(config);
    config_files.check();
  }
};

// Adds the path, for options of one group: Options{run, "method/sample"}.real("stepsize").
class Options {
 public:
  Options(Run& run, std::string path) : arguments_(run.arguments), path_(std::move(path)) {}
  int integer(const std::string& name) const { return arguments_.integer(path_ + "/" + name); }
  double real(const std::string& name) const { return arguments_.real(path_ + "/" + name); }
  bool flag(const std::string& name) const { return arguments_.flag(path_ + "/" + name); }
  unsigned size(const std::string& name) const {
    return arguments_.get<unsigned>(path_ + "/" + name);
  }
  const std::string& text(const std::string& name) const {
    return arguments_.text(path_ + "/" + name);
  }
  const std::string& choice(const std::string& name) const {
    return arguments_.choice(path_ + "/" + name);
  }

 private:
  CommandLine& arguments_;
  std::string path_;
};

}  // namespace driver

#endif
