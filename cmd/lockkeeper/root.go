package main

import (
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper"
)

// The environment that takes the place of flags. A flag on the command line wins.
const (
	envRedis     = "LOCKKEEPER_REDIS"
	envPassword  = "LOCKKEEPER_REDIS_PASSWORD"
	envPrefix    = "LOCKKEEPER_PREFIX"
	envLogLevel  = "LOCKKEEPER_LOG_LEVEL"
	envLogFormat = "LOCKKEEPER_LOG_FORMAT"
	envDatabase  = "LOCKKEEPER_DATABASE"

	envDatabasePassword = "LOCKKEEPER_DATABASE_PASSWORD"
)

// An app is one run of the program: where it reads and writes, and its global flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            map[string]string

	redis        redisURLs
	redisFlag    bool // --redis is on the command line, and not from the environment
	passwordFile string
	prefix       string
	logLevel     string
	logFormat    string

	log *slog.Logger // from setUp on
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, environ []string) *app {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, env: make(map[string]string)}
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok {
			a.env[name] = value
		}
	}
	return a
}

// rootCommand makes the tree of commands.
func (a *app) rootCommand() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "lockkeeper",
		Short: "Locks on Redis, and the work of which one machine does it",
		Long: `Lockkeeper keeps one of many processes at work and the others standing by, with a
lock on Redis that fences its holder's writes: changes in Redis reach a SQL database,
none lost, none written by a process that was superseded.

Start with a file that says which keys become which rows:

  lockkeeper flush --help

Environment, where a flag does not say it:
  ` + envRedis + `              the URL of Redis
  ` + envPassword + `     its password, if neither the URL nor a file has it
  ` + envPrefix + `             what the keys of Lockkeeper begin with
  ` + envLogLevel + `          debug, info, warn or error
  ` + envLogFormat + `         text or json
  ` + envDatabase + `           the database of a flush, instead of the file's
  ` + envDatabasePassword + `  its password, instead of the URL's

Exit codes:
` + strings.TrimSuffix(exitHelp(), "\n"),
		SilenceErrors:     true, // finish tells them
		SilenceUsage:      true,
		PersistentPreRunE: a.setUp,
	})
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		// The flags of a command that is misspelt are not known: tell the cause.
		if args := c.Flags().Args(); len(args) > 0 && c.HasSubCommands() {
			if unknown := c.ValidateArgs(args); unknown != nil {
				err = unknown
			}
		}
		return usageError{err}
	})
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.Var(&a.redis, "redis", "Redis: redis://[user[:password]@]host[:port][/db], rediss:// for TLS, unix:///socket")
	flags.StringVar(&a.passwordFile, "redis-password-file", "", "`file` that has the password of Redis")
	flags.StringVar(&a.prefix, "prefix", lockkeeper.DefaultPrefix, "`text` that Lockkeeper's keys begin with; '' for nothing")
	flags.StringVar(&a.logLevel, "log-level", "info", "least `level` to log: debug, info, warn, error")
	flags.StringVar(&a.logFormat, "log-format", "text", "`format` of the log on standard error: text, json")
	root.AddCommand(a.benchCommand(), a.demoCommand(), a.demoWorkerCommand(), a.flushCommand(), a.versionCommand())
	return root
}

// group makes a command that only has others below it.
func group(c *cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := "; see " + c.CommandPath() + " --help"
		c.SuggestionsMinimumDistance = 2
		if similar := c.SuggestionsFor(args[0]); len(similar) > 0 {
			hint = fmt.Sprintf("; did you mean %s?", strings.Join(similar, " or "))
		}
		return usagef("unknown command %s of %s%s", shown(args[0]), c.CommandPath(), hint)
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

// noArgs is cobra.NoArgs, with our exit code.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, and got %s", c.CommandPath(), shown(args[0]))
	}
	return nil
}

// shown quotes an argument, unless it is a URL in the wrong place, with a password
// perhaps.
func shown(arg string) string {
	if strings.Contains(arg, "://") {
		return "a URL"
	}
	return fmt.Sprintf("%q", arg)
}

// setUp takes the environment in and starts the log.
func (a *app) setUp(c *cobra.Command, _ []string) error {
	flags := c.Root().PersistentFlags()
	a.redisFlag = flags.Changed("redis")
	for env, name := range map[string]string{envRedis: "redis", envPrefix: "prefix", envLogLevel: "log-level", envLogFormat: "log-format"} {
		value, set := a.env[env]
		if !set || flags.Changed(name) {
			continue
		}
		if value == "" && name != "prefix" { // an empty variable is an unset one, but a prefix can be empty
			continue
		}
		if err := flags.Set(name, value); err != nil {
			return usagef("%s: %w", env, err)
		}
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil || strings.ContainsAny(a.logLevel, "+-") {
		return usagef("log level %q: debug, info, warn or error", a.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	switch a.logFormat {
	case "text":
		a.log = slog.New(slog.NewTextHandler(a.stderr, options))
	case "json":
		a.log = slog.New(slog.NewJSONHandler(a.stderr, options))
	default:
		return usagef("log format %q: text or json", a.logFormat)
	}
	return nil
}

// keyPrefix returns the prefix as the library takes it.
func (a *app) keyPrefix() string {
	if a.prefix == "" {
		return lockkeeper.NoPrefix
	}
	return a.prefix
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, version())
			return err
		},
	}
}

// version returns what the build has recorded.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "lockkeeper (unknown build)"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	text := "lockkeeper " + v
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if revision := settings["vcs.revision"]; revision != "" {
		text += " " + revision[:min(12, len(revision))]
		if settings["vcs.modified"] == "true" {
			text += " with changes"
		}
	}
	return fmt.Sprintf("%s (%s %s/%s)", text, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
