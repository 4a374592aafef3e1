// The program around a compiled Stan model: reads the command line, runs one of
// Stan's algorithms on the model, and writes Stan CSV files.
//
// One translation unit on purpose: reading Stan's headers is most of its compile
// time, and every further unit would read them again.

// The first: in the form that g++ reads fast it takes no time, and it has most of the others.
#include <stan/model/model_header.hpp>

#include "evaluate.hpp"
#include "optimize.hpp"
#include "options.hpp"
#include "pathfinder.hpp"
#include "sample.hpp"
#include "variational.hpp"

#include <stan/math/prim/core/init_threadpool_tbb.hpp>

#include <chrono>
#include <map>

// Defined by the C++ code that stanc generates; linked from the model's object.
stan::model::model_base& new_model(stan::io::var_context& data, unsigned int seed,
                                   std::ostream* messages);
stan::math::profile_map& get_stan_profile_data();

namespace driver {

#ifdef STAN_THREADS
constexpr bool threaded = true;
#else
constexpr bool threaded = false;
#endif

#ifdef STAN_NO_RANGE_CHECKS
constexpr bool range_checks = false;
#else
constexpr bool range_checks = true;
#endif

#ifdef STAN_CPP_OPTIMS
constexpr bool cpp_optims = true;
#else
constexpr bool cpp_optims = false;
#endif

// ---------------------------------------------------------------- info and help

// CmdStanPy reads these lines. MPI and OpenCL builds are left to the official CmdStan.
void print_info(std::ostream& out) {
  out << std::boolalpha << "stan_version_major = " << stan::MAJOR_VERSION
      << "\nstan_version_minor = " << stan::MINOR_VERSION
      << "\nstan_version_patch = " << stan::PATCH_VERSION << "\nSTAN_THREADS=" << threaded
      << "\nSTAN_MPI=false\nSTAN_OPENCL=false\nSTAN_NO_RANGE_CHECKS=" << !range_checks
      << "\nSTAN_CPP_OPTIMS=" << cpp_optims << '\n';
}

void print_usage(std::ostream& out, const std::string& program, const CommandLine& arguments) {
  const auto line = [&](const std::string& name, const std::string& description) {
    out << "  " << name << std::string(name.size() < 22 ? 22 - name.size() : 1, ' ')
        << description << '\n';
  };
  out << "Usage: " << program << " <method> [option ...] [group option ...]\n\n"
      << "Choose a method,\n";
  for (const auto& argument : arguments.top().children())
    if (const auto* method = dynamic_cast<const Choice*>(argument.get()))
      for (const auto& group : method->options()) line(group->name(), group->description());
  out << "\nset what all methods share,\n";
  for (const auto& argument : arguments.top().children())
    if (argument->name() != "method") line(argument->name(), argument->description());
  out << "\nor ask for\n";
  line("info", "Version of Stan and build flags");
  line("help", "This text; after a method or group: its options");
  line("help-all", "All options, or all below a method or group");
}

// ---------------------------------------------------------------- before the run

// The number of threads the options and the environment agree on.
int agreed_threads(CommandLine& arguments, int environment) {
  const int asked = arguments.integer("num_threads");
  if (!arguments.value<int>("num_threads").is_default() && environment != 1 &&
      asked != environment)
    throw std::invalid_argument("num_threads = " + std::to_string(asked) +
                                " contradicts STAN_NUM_THREADS = " + std::to_string(environment) +
                                "; set one of them.");
  return asked;
}

// Names of outputs that are folders, or would be written over what the run reads. The
// names that several chains make of these are looked at when they are opened.
void check_output_names(CommandLine& arguments) {
  const std::string& output = arguments.text("output/file");
  const std::string& diagnostics = arguments.text("output/diagnostic_file");
  const auto& profile = arguments.value<std::string>("output/profile_file");
  for (const NamedFile& file : {NamedFile("Output", output), NamedFile("Diagnostic", diagnostics),
                                NamedFile("Profile", profile.get())})
    if (names_folder(file.second) && (file.first == "Output" || !file.second.empty()))
      throw std::invalid_argument(file.first + " file \"" + file.second +
                                  "\" is a folder; add the name of a file.");
  OutputFiles files(-1, input_files(arguments));
  files.check_new(csv_name(output));
  if (!diagnostics.empty()) files.check_new(csv_name(diagnostics));
  if (!profile.is_default()) files.check_new(profile.get());
}

// What is wrong with the options taken together, found before any file is touched.
void check_options(CommandLine& arguments) {
  const std::string method = arguments.choice("method");
  check_output_names(arguments);
  if (method == "sample") {
    if (arguments.choice("method/sample/algorithm") == "hmc" &&
        arguments.choice("method/sample/algorithm/hmc/engine") == "static" &&
        arguments.integer("method/sample/num_chains") > 1)
      throw std::invalid_argument(
          "Argument 'num_chains' is unavailable for the 'static' HMC engine.");
    if (arguments.flag("method/sample/adapt/save_metric") &&
        !arguments.flag("method/sample/adapt/engaged"))
      throw std::invalid_argument(
          "Saving the adapted metric (save_metric=1) can only be enabled when adaptation is "
          "engaged (adapt engaged=1)");
  } else if (method == "generate_quantities") {
    const std::string input = arguments.text("method/generate_quantities/fitted_params");
    if (input.empty())
      throw std::invalid_argument(
          "Missing fitted_params argument, cannot run generate_quantities "
          "without fitted sample.");
    if (!ends_with(input, ".csv"))
      throw std::invalid_argument("Fitted params file must be a CSV file.");
  } else if (method == "laplace") {
    const std::string input = arguments.text("method/laplace/mode");
    if (input.empty())
      throw std::invalid_argument("Missing mode argument, cannot run laplace without mode.");
  } else if (method == "log_prob") {
    const std::string constrained = arguments.text("method/log_prob/constrained_params");
    const std::string unconstrained = arguments.text("method/log_prob/unconstrained_params");
    if (constrained.empty() && unconstrained.empty())
      throw std::invalid_argument(
          "No input parameter files provided, cannot calculate log probability density.");
    if (!constrained.empty() && !unconstrained.empty())
      throw std::invalid_argument(
          "Give either constrained_params or unconstrained_params, not both.");
  }
}

// An unset seed is taken from the clock and shown as if it were the default.
void settle_seed(CommandLine& arguments) {
  auto& seed = arguments.value<long long>("random/seed");
  if (seed.get() >= 0) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  seed.settle(milliseconds & 0xffffffffLL);
}

// ---------------------------------------------------------------- the run

int run_method(Run& run) {
  static const std::map<std::string, int (*)(Run&)> methods = {
      {"sample", run_sample},           {"optimize", run_optimize},
      {"laplace", run_laplace},         {"pathfinder", run_pathfinder},
      {"variational", run_variational}, {"generate_quantities", run_generate_quantities},
      {"log_prob", run_log_prob},       {"diagnose", run_diagnose}};
  return methods.at(run.arguments.choice("method"))(run);
}

// A profile that nobody asked for by name must not spoil a run in a folder that
// cannot be written to.
void save_profile(Run& run) {
  CommandLine& arguments = run.arguments;
  const auto& profile = get_stan_profile_data();
  if (profile.empty()) return;
  const auto& path = arguments.value<std::string>("output/profile_file");
  std::string message = "Can't write profile file \"" + path.get() + "\"";
  try {
    run.files.check_new(path.get());
    std::ofstream out(path.get());
    const int sig_figs = arguments.integer("output/sig_figs");
    if (sig_figs > -1) out.precision(sig_figs);
    write_profile(out, profile);
    if (out.flush()) return;
  } catch (const std::invalid_argument& conflict) {
    message = conflict.what();
  }
  if (!path.is_default()) throw std::runtime_error(message);
  std::cerr << message << std::endl;
}

int run(CommandLine& arguments, int environment_threads) {
  stan::math::init_threadpool_tbb(agreed_threads(arguments, environment_threads));
  check_options(arguments);
  settle_seed(arguments);
  arguments.print(std::cout, "");
  std::cout << std::endl;

  const auto data = read_context(arguments.text("data/file"));
  const auto seed = static_cast<unsigned>(arguments.get<long long>("random/seed"));
  std::unique_ptr<Model> model(&new_model(*data, seed, &std::cout));
  Run run(arguments, *model);
  const int code = run_method(run);
  save_profile(run);
  return code == 0 ? 0 : 1;
}

int start(const std::string& program, const std::vector<std::string>& words) {
  const int environment_threads = stan::math::internal::get_num_threads();
  CommandLine arguments = command_line(environment_threads, threaded);
  if (words.empty()) {
    print_usage(std::cout, program, arguments);
    return 1;
  }
  if (words[0] == "info") {
    print_info(std::cout);
    return 0;
  }
  try {
    arguments.parse(Tokens(words));
  } catch (const help_request& request) {
    if (!request.argument && !request.everything)
      print_usage(std::cout, program, arguments);
    else if (!request.argument)
      arguments.help_all(std::cout);
    else
      request.argument->help(std::cout, 0, request.everything);
    return 0;
  } catch (const usage_error& error) {
    std::cerr << error.what() << "\nFailed to parse command arguments, cannot run model."
              << std::endl;
    return 1;
  }
  return run(arguments, environment_threads);
}

}  // namespace driver

int main(int argc, const char* argv[]) {
  try {
    return driver::start(argv[0], std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
