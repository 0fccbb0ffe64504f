package sqltest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

type mariadb struct {
	server, install, shell string // programs
}

func findMariaDB() (engine, error) {
	m := &mariadb{server: os.Getenv("LOCKKEEPER_MARIADBD")}
	if m.server == "" {
		m.server = program("", "mariadbd", "mysqld")
	}
	m.install = program(filepath.Dir(m.server), "mariadb-install-db", "mysql_install_db")
	m.shell = program(filepath.Dir(m.server), "mariadb", "mysql")
	if _, err := exec.LookPath(m.server); err != nil || m.install == "" || m.shell == "" {
		return nil, fmt.Errorf("%w: MariaDB (LOCKKEEPER_MARIADBD, or mariadbd in PATH; mariadb-install-db; mariadb)", ErrNotInstalled)
	}
	return m, nil
}

// program looks for a program by its names, in a folder and its usual places. It
// returns "" if there is none.
func program(beside string, names ...string) string {
	for _, name := range names {
		for _, path := range []string{filepath.Join(beside, name), name, filepath.Join("/usr/sbin", name)} {
			if path, err := exec.LookPath(path); err == nil {
				return path
			}
		}
	}
	return ""
}

func (m *mariadb) run(ctx context.Context, program string, args ...string) *exec.Cmd {
	// No setting of whoever runs the tests gets in: --no-defaults has to be the first.
	cmd := exec.CommandContext(ctx, program, append([]string{"--no-defaults"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// asRoot are the arguments of a server that root starts: it refuses without them.
func asRoot() []string {
	if os.Getuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

func (m *mariadb) prepare(ctx context.Context, s *Server) error {
	install := m.run(ctx, m.install, append(asRoot(), "--datadir="+s.data(), "--tmpdir="+s.folder.path,
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")...)
	install.Dir = s.folder.path
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	user := fmt.Sprintf("'%s'@'127.0.0.1'", admin)
	return os.WriteFile(m.initFile(s), []byte(fmt.Sprintf("CREATE USER IF NOT EXISTS %s IDENTIFIED BY '%s';\n"+
		"GRANT ALL ON *.* TO %s WITH GRANT OPTION;\n", user, admin, user)), 0o600)
}

func (*mariadb) initFile(s *Server) string { return filepath.Join(s.folder.path, "init.sql") }

func (m *mariadb) command(s *Server) *exec.Cmd {
	cmd := m.run(context.Background(), m.server, asRoot()...)
	cmd.Args = append(cmd.Args,
		"--datadir="+s.data(),
		"--tmpdir="+s.folder.path,
		"--bind-address=127.0.0.1",
		"--port="+strconv.Itoa(s.port),
		"--socket="+filepath.Join(s.folder.path, "socket"),
		"--pid-file="+filepath.Join(s.folder.path, "pid"),
		"--init-file="+m.initFile(s),
		"--skip-name-resolve",
		"--character-set-server=utf8mb4",
		"--max-connections=200",
	)
	if !s.durable {
		// 2: a commit is handed to the kernel, so that it survives the process.
		cmd.Args = append(cmd.Args, "--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=0", "--innodb-log-file-size=32M")
	}
	if s.tls {
		cmd.Args = append(cmd.Args, "--ssl-cert="+s.CertFile(), "--ssl-key="+s.keyFile())
	}
	endWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	return cmd
}

func (*mariadb) ready() string { return "ready for connections" }
func (*mariadb) taken() string { return "Do you already have another" }
func (*mariadb) quit() string  { return "KILL" }

func (m *mariadb) client(ctx context.Context, s *Server, database, statement string) *exec.Cmd {
	return m.run(ctx, m.shell, "--host=127.0.0.1", "--protocol=tcp", "--port="+strconv.Itoa(s.port),
		"--user="+admin, "--password="+admin, "--execute="+statement, "--database="+database)
}

func (*mariadb) url(s *Server, database string) string {
	return "mariadb://" + admin + ":" + admin + "@" + s.Addr() + "/" + strings.ReplaceAll(database, " ", "%20")
}
