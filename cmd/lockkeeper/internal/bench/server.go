package bench

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// askServer notes what the server is, and how busy others keep it.
func (b *bench) askServer(ctx context.Context, rdb *redis.Client) {
	text, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		b.blind = true
		b.note("INFO gives nothing (%s): what the server's CPU does is not known", err)
		return
	}
	if version := field(text, "redis_version"); version != "" {
		b.out.RedisVersion = &version
	}
	text, _ = rdb.Info(ctx, "stats").Result() // without it the number is not known
	if n, err := strconv.ParseFloat(field(text, "instantaneous_ops_per_sec"), 64); err == nil {
		b.out.CommandsBefore = &n
		if n >= 1000 {
			b.note("%s commands a second came to this server when the run began: what it says of its CPU has those of others in it", grouped(n))
		}
	}
}

// A usage is what was used up to a moment. A number that is not known is negative.
type usage struct {
	process  [2]time.Duration // of this process, before and after the server was asked
	server   float64          // CPU in us
	scripts  float64          // in us, by EVAL and EVALSHA
	requests int64
}

// measure returns what was used until now.
func (b *bench) measure(ctx context.Context, clients []*client) usage {
	u := usage{server: -1, scripts: -1}
	u.process[0] = processCPU()
	for _, c := range clients {
		u.requests += c.meter.requests.Load()
	}
	if !b.blind {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		rdb := clients[0].Redis
		if text, err := rdb.Info(asking, "cpu").Result(); err == nil {
			u.server = serverCPU(text)
		}
		if text, err := rdb.Info(asking, "commandstats").Result(); err == nil {
			u.scripts = scriptTime(text)
		}
	}
	u.process[1] = processCPU()
	return u
}

// cost returns what each of n operations has used since before.
func (u usage) cost(before usage, n int) Cost {
	each := func(before, after float64) *float64 {
		if before < 0 || after < before || n == 0 {
			return nil
		}
		return rounded((after - before) / float64(n))
	}
	var c Cost
	if requests := each(float64(before.requests), float64(u.requests)); requests != nil {
		c.Requests = *requests
	}
	c.ProcessCPU = each(micros(before.process[1]), micros(u.process[0]))
	c.ServerCPU = each(before.server, u.server)
	c.ServerScripts = each(before.scripts, u.scripts)
	return c
}

// serverCPU returns what the server's process has used, in us, by its INFO cpu.
func serverCPU(info string) float64 {
	user, err := strconv.ParseFloat(field(info, "used_cpu_user"), 64)
	if err != nil {
		return -1
	}
	sys, err := strconv.ParseFloat(field(info, "used_cpu_sys"), 64)
	if err != nil {
		return -1
	}
	return (user + sys) * 1e6
}

// scriptTime returns how long scripts have run, in us, by INFO commandstats.
func scriptTime(info string) float64 {
	total := -1.0
	for _, command := range []string{"cmdstat_eval", "cmdstat_evalsha"} {
		for part := range strings.SplitSeq(field(info, command), ",") {
			if text, ok := strings.CutPrefix(part, "usec="); ok {
				if n, err := strconv.ParseFloat(text, 64); err == nil {
					total = max(total, 0) + n
				}
			}
		}
	}
	return total
}

// field returns a field of INFO, or "".
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
