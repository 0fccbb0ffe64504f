package sqltest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// janitor waits until the process that has started it is over, or closes its standard
// input. Then it ends the server whose process was named last, and removes the folder.
// PostgreSQL leaves a small shared memory segment behind when it was killed; its data
// folder says which.
const janitor = `
dir=$1 quit=$2 pid=0
while read -r line; do pid=$line; done
if [ "$pid" != 0 ] && kill -s "$quit" "$pid"; then
	kill -s CONT "$pid"
	n=0
	while kill -0 "$pid" && [ "$n" -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
	kill -s KILL "$pid"
fi
shm=$(sed -n '7s/.* //p' "$dir/data/postmaster.pid")
[ -z "$shm" ] || ipcrm -m "$shm"
rm -rf "$dir" || { sleep 1; rm -rf "$dir"; }
`

// A folder is a temporary folder that is removed in any case, also when this process
// is killed, and the server with it.
type folder struct {
	path    string
	janitor *exec.Cmd
	stdin   io.WriteCloser
}

// newFolder makes a folder. Quit is the signal that ends the server.
func newFolder(quit string) (*folder, error) {
	path, err := os.MkdirTemp("", "lockkeeper-sqltest-*")
	if err != nil {
		return nil, fmt.Errorf("sqltest: %w", err)
	}
	f := &folder{path: path, janitor: exec.Command("sh", "-c", janitor, "sh", path, quit)}
	f.janitor.Dir = "/"
	// Ctrl-C ends the processes of the terminal's group: this one must outlive them.
	f.janitor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if f.stdin, err = f.janitor.StdinPipe(); err == nil {
		err = f.janitor.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sqltest: %w", err), os.RemoveAll(path))
	}
	return f, nil
}

// watch names the process to end with this one; 0 is none.
func (f *folder) watch(pid int) {
	_, _ = io.WriteString(f.stdin, strconv.Itoa(pid)+"\n") // a janitor that is gone is noticed by remove
}

// remove removes the folder.
func (f *folder) remove() error {
	_ = f.stdin.Close() // that is what it waits for
	timer := time.AfterFunc(patience, func() { _ = f.janitor.Process.Kill() })
	defer timer.Stop()
	err := f.janitor.Wait()
	return errors.Join(err, os.RemoveAll(f.path))
}
