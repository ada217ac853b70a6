#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "client/commands/verbs.h"

namespace coat {
namespace {

struct VerbWords {
  std::vector<std::string> names;  // the verb and its aliases
  std::string description;
  std::vector<std::string> words;  // flags and verbs below it
};

std::vector<std::string> FlagsOf(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

const auto kEvery = [](const CLI::App*) { return true; };

// Read from the declared verbs, so that it cannot lag behind them.
std::vector<VerbWords> CollectVerbs(const CLI::App& app) {
  std::vector<VerbWords> verbs;
  for (const CLI::App* verb : app.get_subcommands(kEvery)) {
    VerbWords words{{verb->get_name()}, verb->get_description(), FlagsOf(*verb)};
    for (const std::string& alias : verb->get_aliases()) words.names.push_back(alias);
    for (const CLI::App* below : verb->get_subcommands(kEvery)) {
      words.words.push_back(below->get_name());
      for (const std::string& flag : FlagsOf(*below)) words.words.push_back(flag);
    }
    for (const std::string& flag : FlagsOf(app)) words.words.push_back(flag);
    verbs.push_back(words);
  }
  return verbs;
}

std::string Join(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// Between single quotes of a shell.
std::string Escaped(std::string text) {
  for (size_t at = text.find('\''); at != std::string::npos; at = text.find('\'', at + 4)) {
    text.replace(at, 1, "'\\''");
  }
  return text;
}

std::string Bash(const std::vector<VerbWords>& verbs) {
  std::string all, cases;
  for (const VerbWords& verb : verbs) {
    all += (all.empty() ? "" : " ") + Join(verb.names, " ");
    cases += "    " + Join(verb.names, "|") + ") words='" + Join(verb.words, " ") + "' ;;\n";
  }
  return "_coat() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} verb='' i words\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    if [[ ${COMP_WORDS[i]} != -* ]]; then verb=${COMP_WORDS[i]}; break; fi\n"
         "  done\n"
         "  case $verb in\n" +
         cases + "    *) words='" + all +
         " --server --timeout --help --version' ;;\n"
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "}\n"
         "complete -o default -F _coat coat\n";
}

std::string Zsh(const std::vector<VerbWords>& verbs) {
  std::string all, cases;
  for (const VerbWords& verb : verbs) {
    for (const std::string& name : verb.names) {
      all += "    '" + name + ":" + Escaped(verb.description) + "'\n";
    }
    cases += "    " + Join(verb.names, "|") + ") compadd -- " + Join(verb.words, " ") + " ;;\n";
  }
  return "#compdef coat\n"
         "_coat() {\n"
         "  local -a verbs\n"
         "  verbs=(\n" +
         all +
         "  )\n"
         "  if (( CURRENT == 2 )); then _describe verb verbs; return; fi\n"
         "  case $words[2] in\n" +
         cases +
         "  esac\n"
         "  _files\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _coat ]; then _coat \"$@\"; else compdef _coat coat; fi\n";
}

std::string Fish(const std::vector<VerbWords>& verbs) {
  std::string text;
  for (const VerbWords& verb : verbs) {
    for (const std::string& name : verb.names) {
      text += "complete -c coat -n __fish_use_subcommand -a " + name + " -d '" +
              Escaped(verb.description) + "'\n";
    }
    text += "complete -c coat -n '__fish_seen_subcommand_from " + Join(verb.names, " ") + "' -a '" +
            Join(verb.words, " ") + "'\n";
  }
  return text;
}

}  // namespace

void AddCompletion(CLI::App* app, Action* action) {
  CLI::App* verb = app->add_subcommand(
      "completion", "Print a shell's completion: source <(coat completion bash)");
  const auto shell = std::make_shared<std::string>();
  verb->add_option("shell", *shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->required();
  verb->callback([=] {
    *action = [app, shell](Context& context) {
      const std::vector<VerbWords> verbs = CollectVerbs(*app);
      context.out() << (*shell == "bash"  ? Bash(verbs)
                        : *shell == "zsh" ? Zsh(verbs)
                                          : Fish(verbs));
      return kExitOk;
    };
  });
}

}  // namespace coat
