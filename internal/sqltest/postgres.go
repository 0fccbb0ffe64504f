package sqltest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// admin is the user who may do everything, and on MariaDB the password as well.
const admin = "lockkeeper"

// guarded is a user whom PostgreSQL asks for a password, once a test has made the role.
const guarded = "guarded"

// postgres runs the programs of one folder.
type postgres struct {
	bin string
	// PostgreSQL refuses to run as root: then it runs as somebody else.
	as *syscall.Credential
}

func findPostgres() (engine, error) {
	p := &postgres{}
	for _, bin := range postgresFolders() {
		if _, err := exec.LookPath(filepath.Join(bin, "initdb")); err == nil {
			p.bin = bin
			break
		}
	}
	if p.bin == "" {
		return nil, fmt.Errorf("%w: PostgreSQL (initdb in the folder LOCKKEEPER_POSTGRES_BIN or in PATH)", ErrNotInstalled)
	}
	if os.Getuid() != 0 {
		return p, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("sqltest: user %s: %w", name, err)
		}
		p.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return p, nil
	}
	return nil, errors.New("sqltest: PostgreSQL does not run as root, and there is no user postgres or nobody")
}

// postgresFolders are the folders where the programs may be, the best first.
func postgresFolders() []string {
	if bin := os.Getenv("LOCKKEEPER_POSTGRES_BIN"); bin != "" {
		return []string{bin}
	}
	var folders []string
	if path, err := exec.LookPath("initdb"); err == nil {
		// The other programs are beside it, and not beside a link to it.
		if path, err = filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(path))
		}
	}
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // fails for a bad pattern only
	slices.SortFunc(installed, func(a, b string) int { return cmp.Compare(major(b), major(a)) })
	return append(folders, installed...)
}

// major returns the version in /usr/lib/postgresql/VERSION/bin.
func major(bin string) float64 {
	v, _ := strconv.ParseFloat(filepath.Base(filepath.Dir(bin)), 64) // no number sorts last
	return v
}

func (p *postgres) run(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, program), args...)
	// No setting of whoever runs the tests gets in.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as, Setpgid: true}
	return cmd
}

// give makes a file the server's.
func (p *postgres) give(path string) error {
	if p.as == nil {
		return nil
	}
	return os.Chown(path, int(p.as.Uid), int(p.as.Gid))
}

func (p *postgres) prepare(ctx context.Context, s *Server) error {
	if err := p.give(s.folder.path); err != nil {
		return err
	}
	if s.tls {
		if err := errors.Join(p.give(s.CertFile()), p.give(s.keyFile())); err != nil {
			return err
		}
	}
	// With --no-sync this is not on the disk yet, but then nobody wants to pull its plug.
	initdb := p.run(ctx, "initdb", "--pgdata", s.data(), "--username", admin, "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	initdb.Dir = s.folder.path
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	hba := filepath.Join(s.data(), "pg_hba.conf")
	text, err := os.ReadFile(hba)
	if err != nil {
		return err
	}
	return os.WriteFile(hba, append([]byte("host all "+guarded+" 127.0.0.1/32 scram-sha-256\n"), text...), 0o600)
}

func (p *postgres) command(s *Server) *exec.Cmd {
	settings := []string{
		"listen_addresses=127.0.0.1",
		"port=" + strconv.Itoa(s.port),
		"unix_socket_directories=",
		"max_connections=200",
		"shared_buffers=64MB",
		"dynamic_shared_memory_type=mmap", // in the folder, so that it goes with it
		"log_timezone=UTC",
	}
	if !s.durable {
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	if s.tls {
		settings = append(settings, "ssl=on", "ssl_cert_file="+s.CertFile(), "ssl_key_file="+s.keyFile())
	}
	cmd := p.run(context.Background(), "postgres", "-D", s.data())
	for _, setting := range settings {
		cmd.Args = append(cmd.Args, "-c", setting)
	}
	endWithParent(cmd.SysProcAttr, syscall.SIGQUIT)
	return cmd
}

func (*postgres) ready() string { return "database system is ready to accept connections" }
func (*postgres) taken() string { return "Address already in use" }
func (*postgres) quit() string  { return "QUIT" }

func (p *postgres) client(ctx context.Context, s *Server, database, statement string) *exec.Cmd {
	if database == "" {
		database = "postgres"
	}
	return p.run(ctx, "psql", "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--host", "127.0.0.1",
		"--port", strconv.Itoa(s.port), "--username", admin, "--dbname", database, "--command", statement)
}

func (*postgres) url(s *Server, database string) string {
	return "postgres://" + admin + "@" + s.Addr() + "/" + strings.ReplaceAll(database, " ", "%20") + "?sslmode=disable"
}
