// Command lockkeeper keeps one of many processes at work: it flushes changes in Redis
// into a SQL database, from exactly one of the machines that it runs on.
//
//	lockkeeper flush run -f players.yaml
//
// lockkeeper --help lists its commands, and the exit codes that all of them share.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	// Its client prints lines of its own about what is told better here.
	logging.Disable()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A second signal ends the process at once; but supervisors and shells send one to the
	// process and to its group, and mean one.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// run is the program, without what belongs to the process. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	a := newApp(stdin, stdout, stderr, environ)
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return a.finish(root.ExecuteContext(ctx))
}
