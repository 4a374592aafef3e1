// The command line as a tree: groups of options, values, and choices between groups.
//
// A token is "name" or "name=value". A group takes the tokens that follow it as long
// as they are its own options; the first foreign token closes it and is offered to
// the group around it. The same tree prints itself as the run's configuration, as
// JSON and as help.

#ifndef BDR_STAN_DRIVER_ARGUMENTS_HPP
#define BDR_STAN_DRIVER_ARGUMENTS_HPP

#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace driver {

// A wrong command line. The text goes to stderr as it is.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A cursor over the words of the command line.
class Tokens {
 public:
  explicit Tokens(std::vector<std::string> words) : words_(std::move(words)) {}
  bool done() const { return next_ == words_.size(); }
  const std::string& front() const { return words_[next_]; }
  void pop() { ++next_; }
  std::string front_name() const { return front().substr(0, front().find('=')); }
  bool front_has_value() const { return front().find('=') != std::string::npos; }
  std::string front_value() const { return front().substr(front().find('=') + 1); }

 private:
  std::vector<std::string> words_;
  std::size_t next_ = 0;
};

// Where the configuration goes as JSON; Stan's structured writers have this shape.
class JsonSink {
 public:
  virtual ~JsonSink() = default;
  virtual void begin(const std::string& name) = 0;
  virtual void end() = 0;
  virtual void write(const std::string& name, bool value) = 0;
  virtual void write(const std::string& name, double value) = 0;
  virtual void write(const std::string& name, long long value) = 0;
  virtual void write(const std::string& name, const std::string& value) = 0;
};

inline std::string indent(int depth) { return std::string(2 * depth, ' '); }

class Argument {
 public:
  Argument(std::string name, std::string description)
      : name_(std::move(name)), description_(std::move(description)) {}
  virtual ~Argument() = default;
  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }

  // Whether the front token is this argument (its value may still be bad).
  virtual bool accepts(const Tokens& tokens) const = 0;
  virtual void parse(Tokens& tokens) = 0;
  // The configuration of the run, two blanks per level after the prefix.
  virtual void print(std::ostream& out, const std::string& prefix, int depth) const = 0;
  virtual void print_json(JsonSink& sink) const = 0;
  // How a user types it, and what it means.
  virtual std::string usage() const = 0;
  virtual void help(std::ostream& out, int depth, bool everything) const = 0;
  virtual Argument* child(const std::string& name) = 0;
  // Every command line prefix below `path` that ends in an option called `wanted`.
  virtual void suggest(const std::string& wanted, const std::string& path,
                       std::vector<std::string>& found) const = 0;

 private:
  std::string name_;
  std::string description_;
};

using ArgumentPtr = std::unique_ptr<Argument>;

// Asked for with the words help and help-all inside a group.
struct help_request {
  const Argument* argument;
  bool everything;
};

// ---------------------------------------------------------------- values

template <typename T>
std::string type_name() {
  if (std::is_same<T, bool>::value) return "<boolean>";
  if (std::is_same<T, double>::value) return "<double>";
  if (std::is_same<T, std::string>::value) return "<string>";
  return std::is_same<T, unsigned>::value ? "<unsigned int>" : "<int>";
}

// Numbers are read from the front of the text: "10.7" is the integer 10. Text that
// does not start with a number of the type throws std::invalid_argument or
// std::out_of_range.
inline void read(const std::string& text, int& value) { value = std::stoi(text); }
inline void read(const std::string& text, long long& value) { value = std::stoll(text); }
inline void read(const std::string& text, double& value) { value = std::stod(text); }
inline void read(const std::string& text, std::string& value) { value = text; }
inline void read(const std::string& text, unsigned& value) {
  const long long wide = std::stoll(text);
  if (wide < 0 || wide > 4294967295LL) throw std::out_of_range(text);
  value = static_cast<unsigned>(wide);
}
inline void read(const std::string& text, bool& value) {
  value = text == "1" || text == "true";
  if (!value && text != "0" && text != "false") throw std::invalid_argument(text);
}

template <typename T>
std::string show(const T& value) {
  std::ostringstream out;
  out << std::boolalpha << value;
  return out.str();
}

inline void write_json(JsonSink& sink, const std::string& name, bool v) { sink.write(name, v); }
inline void write_json(JsonSink& sink, const std::string& name, double v) { sink.write(name, v); }
inline void write_json(JsonSink& sink, const std::string& name, const std::string& v) {
  sink.write(name, v);
}
inline void write_json(JsonSink& sink, const std::string& name, long long v) {
  sink.write(name, v);
}
inline void write_json(JsonSink& sink, const std::string& name, int v) {
  sink.write(name, static_cast<long long>(v));
}
inline void write_json(JsonSink& sink, const std::string& name, unsigned v) {
  sink.write(name, static_cast<long long>(v));
}

// Which values an option takes, as a test and as a text for the user.
template <typename T>
struct Range {
  std::function<bool(const T&)> holds;
  std::string text;
};

template <typename T>
class Value final : public Argument {
 public:
  Value(const std::string& name, const std::string& description, T initial, Range<T> range)
      : Argument(name, description),
        value_(initial),
        default_(initial),
        range_(std::move(range)) {}

  const T& get() const { return value_; }
  bool is_default() const { return value_ == default_; }
  // The value stands for the default from now on (the seed taken from the clock).
  void settle(const T& value) { value_ = default_ = value; }

  bool accepts(const Tokens& tokens) const override {
    return tokens.front_has_value() && tokens.front_name() == name();
  }

  void parse(Tokens& tokens) override {
    const std::string text = tokens.front_value();
    tokens.pop();
    T value;
    if (!readable(text, value) || !range_.holds(value)) {
      std::string message = text + " is not a valid value for \"" + name() + "\"";
      if (!range_.text.empty()) message += "\n  Valid values: " + range_.text;
      throw usage_error(message);
    }
    value_ = value;
  }

  void print(std::ostream& out, const std::string& prefix, int depth) const override {
    out << prefix << indent(depth) << name() << " = " << show(value_)
        << (is_default() ? " (Default)" : "") << '\n';
  }

  void print_json(JsonSink& sink) const override { write_json(sink, name(), value_); }

  std::string usage() const override { return name() + "=" + type_name<T>(); }

  void help(std::ostream& out, int depth, bool) const override {
    out << indent(depth) << usage() << '\n' << indent(depth + 1) << description() << '\n';
    if (!range_.text.empty()) out << indent(depth + 1) << "Valid values: " << range_.text << '\n';
    out << indent(depth + 1) << "Defaults to " << show(default_) << "\n\n";
  }

  Argument* child(const std::string&) override { return nullptr; }

  void suggest(const std::string& wanted, const std::string& path,
               std::vector<std::string>& found) const override {
    if (name() == wanted) found.push_back(path + usage());
  }

 private:
  static bool readable(const std::string& text, T& value) {
    try {
      read(text, value);
      return true;
    } catch (const std::logic_error&) {  // what stoi and its kin throw
      return false;
    }
  }

  T value_;
  T default_;
  Range<T> range_;
};

// ---------------------------------------------------------------- groups

class Group : public Argument {
 public:
  Group(const std::string& name, const std::string& description,
        std::vector<ArgumentPtr> children = {})
      : Argument(name, description), children_(std::move(children)) {}

  bool accepts(const Tokens& tokens) const override { return tokens.front() == name(); }

  void parse(Tokens& tokens) override {
    tokens.pop();
    parse_children(tokens);
  }

  // Takes the options that follow, as long as they are ours.
  void parse_children(Tokens& tokens) {
    while (!tokens.done()) {
      if (tokens.front() == "help" || tokens.front() == "help-all")
        throw help_request{this, tokens.front() == "help-all"};
      Argument* argument = accepting_child(tokens);
      if (!argument) return;
      argument->parse(tokens);
    }
  }

  void print(std::ostream& out, const std::string& prefix, int depth) const override {
    out << prefix << indent(depth) << name() << '\n';
    print_children(out, prefix, depth + 1);
  }

  void print_children(std::ostream& out, const std::string& prefix, int depth) const {
    for (const auto& argument : children_) argument->print(out, prefix, depth);
  }

  void print_json(JsonSink& sink) const override {
    sink.begin(name());
    for (const auto& argument : children_) argument->print_json(sink);
    sink.end();
  }

  std::string usage() const override { return name(); }

  void help(std::ostream& out, int depth, bool everything) const override {
    out << indent(depth) << name() << '\n' << indent(depth + 1) << description() << '\n';
    if (!children_.empty()) {
      out << indent(depth + 1) << "Valid subarguments:";
      for (std::size_t i = 0; i < children_.size(); ++i)
        out << (i ? ", " : " ") << children_[i]->name();
      out << '\n';
    }
    out << '\n';
    if (everything)
      for (const auto& argument : children_) argument->help(out, depth + 1, true);
  }

  Argument* child(const std::string& name) override {
    for (const auto& argument : children_)
      if (argument->name() == name) return argument.get();
    return nullptr;
  }

  void suggest(const std::string& wanted, const std::string& path,
               std::vector<std::string>& found) const override {
    if (name() == wanted) found.push_back(path + name());
    suggest_children(wanted, path + name() + " ", found);
  }

  void suggest_children(const std::string& wanted, const std::string& path,
                        std::vector<std::string>& found) const {
    for (const auto& argument : children_) argument->suggest(wanted, path, found);
  }

  const std::vector<ArgumentPtr>& children() const { return children_; }

 private:
  Argument* accepting_child(const Tokens& tokens) {
    for (const auto& argument : children_)
      if (argument->accepts(tokens)) return argument.get();
    return nullptr;
  }

  std::vector<ArgumentPtr> children_;
};

// A plain value of a choice (diag_e): nothing is configured below it, and unlike an
// empty group (newton) it prints no line of its own.
class Word final : public Group {
 public:
  Word(const std::string& name, const std::string& description) : Group(name, description) {}
  void print(std::ostream&, const std::string&, int) const override {}
  void print_json(JsonSink&) const override {}
};

// ---------------------------------------------------------------- choices

class Choice final : public Argument {
 public:
  // `bare`: the value may be typed without "name=" (sample for method=sample).
  Choice(const std::string& name, const std::string& description, const std::string& initial,
         std::vector<std::unique_ptr<Group>> options, bool bare = false)
      : Argument(name, description), options_(std::move(options)), bare_(bare) {
    chosen_ = default_ = option(initial);
  }

  const std::string& get() const { return chosen_->name(); }
  const std::vector<std::unique_ptr<Group>>& options() const { return options_; }

  bool accepts(const Tokens& tokens) const override {
    if (tokens.front_has_value()) return tokens.front_name() == name();
    return bare_ && option(tokens.front());
  }

  void parse(Tokens& tokens) override {
    const std::string value = tokens.front_has_value() ? tokens.front_value() : tokens.front();
    tokens.pop();
    Group* wanted = option(value);
    if (!wanted)
      throw usage_error(value + " is not a valid value for \"" + name() +
                        "\"\n  Valid values: " + names());
    chosen_ = wanted;
    chosen_->parse_children(tokens);
  }

  void print(std::ostream& out, const std::string& prefix, int depth) const override {
    out << prefix << indent(depth) << name() << " = " << get()
        << (chosen_ == default_ ? " (Default)" : "") << '\n';
    chosen_->print(out, prefix, depth + 1);
  }

  void print_json(JsonSink& sink) const override {
    sink.begin(name());
    sink.write("value", get());
    chosen_->print_json(sink);
    sink.end();
  }

  std::string usage() const override { return name() + "=<list_element>"; }

  void help(std::ostream& out, int depth, bool everything) const override {
    out << indent(depth) << usage() << '\n' << indent(depth + 1) << description() << '\n'
        << indent(depth + 1) << "Valid values: " << names() << '\n'
        << indent(depth + 1) << "Defaults to " << default_->name() << "\n\n";
    if (everything)
      for (const auto& group : options_) group->help(out, depth + 1, true);
  }

  Argument* child(const std::string& name) override { return option(name); }

  void suggest(const std::string& wanted, const std::string& path,
               std::vector<std::string>& found) const override {
    if (name() == wanted) found.push_back(path + usage());
    for (const auto& group : options_) {
      const std::string typed = path + name() + "=" + group->name();
      if (group->name() == wanted) found.push_back(typed);
      group->suggest_children(wanted, typed + " ", found);
    }
  }

 private:
  Group* option(const std::string& name) const {
    for (const auto& group : options_)
      if (group->name() == name) return group.get();
    return nullptr;
  }

  std::string names() const {
    std::string text;
    for (const auto& group : options_) text += (text.empty() ? "" : ", ") + group->name();
    return text;
  }

  std::vector<std::unique_ptr<Group>> options_;
  bool bare_;
  Group* chosen_;
  Group* default_;
};

// ---------------------------------------------------------------- the whole line

class CommandLine {
 public:
  explicit CommandLine(std::vector<ArgumentPtr> top) : top_("", "", std::move(top)) {}

  // Each argument of the top level may be given once; throws usage_error or help_request.
  void parse(Tokens tokens) {
    std::set<const Argument*> seen;
    while (!tokens.done()) {
      if (tokens.front() == "help" || tokens.front() == "help-all")
        throw help_request{nullptr, tokens.front() == "help-all"};
      Argument* argument = nullptr;
      for (const auto& candidate : top_.children())
        if (!seen.count(candidate.get()) && candidate->accepts(tokens)) argument = candidate.get();
      if (!argument) throw usage_error(misplaced(tokens));
      seen.insert(argument);
      argument->parse(tokens);
    }
    if (!seen.count(top_.child("method"))) throw usage_error("A method must be specified!");
  }

  void print(std::ostream& out, const std::string& prefix) const {
    top_.print_children(out, prefix, 0);
  }

  void print_json(JsonSink& sink) const {
    for (const auto& argument : top_.children()) argument->print_json(sink);
  }

  void help_all(std::ostream& out) const {
    for (const auto& argument : top_.children()) argument->help(out, 0, true);
  }

  const Group& top() const { return top_; }

  // Look up by path, "method/sample/adapt/delta". A wrong path is a fault of the driver.
  template <typename T>
  const T& get(const std::string& path) {
    return value<T>(path).get();
  }
  template <typename T>
  Value<T>& value(const std::string& path) {
    return dynamic_cast<Value<T>&>(find(path));
  }
  const std::string& choice(const std::string& path) {
    return dynamic_cast<Choice&>(find(path)).get();
  }
  bool flag(const std::string& path) { return get<bool>(path); }
  int integer(const std::string& path) { return get<int>(path); }
  double real(const std::string& path) { return get<double>(path); }
  const std::string& text(const std::string& path) { return get<std::string>(path); }

 private:
  Argument& find(const std::string& path) {
    Argument* argument = &top_;
    std::istringstream names(path);
    for (std::string name; std::getline(names, name, '/');) {
      argument = argument->child(name);
      if (!argument) throw std::logic_error("no argument " + path);
    }
    return *argument;
  }

  std::string misplaced(const Tokens& tokens) const {
    std::string message = tokens.front() + " is either mistyped or misplaced.";
    std::vector<std::string> found;
    top_.suggest_children(tokens.front_name(), "", found);
    if (!found.empty())
      message += "\nPerhaps you meant one of the following valid configurations?";
    for (const auto& path : found) message += "\n  " + path;
    return message;
  }

  Group top_;
};

}  // namespace driver

#endif
