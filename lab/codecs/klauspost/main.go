// Measures klauspost/reedsolomon on one core. Reads lines "encode|decode k m cellBytes spanBytes rounds nanoseconds" and
// answers each with the seconds for one stripe, the best of the rounds. Buffers lie as in the measuring core in Rust:
// one allocation, irregular distances.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/klauspost/reedsolomon"
)

var memory []byte

func stripes(shards, cell, span int) [][][]byte {
	count := max(1, (span+shards*cell-1)/(shards*cell))
	need := 0
	gap := func(i int) int { return i * 37 % min(max(cell/64, 1), 64) * 64 }
	for i := range count * shards {
		need += cell + gap(i)
	}
	for at := len(memory); at < need; at++ {
		memory = append(memory, byte(at*7+at>>8))
	}
	all := make([][][]byte, count)
	at := 0
	for s := range all {
		all[s] = make([][]byte, shards)
		for i := range all[s] {
			all[s][i] = memory[at : at+cell : at+cell]
			at += cell + gap(s*shards+i)
		}
	}
	return all
}

func main() {
	runtime.GOMAXPROCS(1)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var what string
		var k, m, cell, span, rounds, nanoseconds int
		if _, err := fmt.Sscan(lines.Text(), &what, &k, &m, &cell, &span, &rounds, &nanoseconds); err != nil {
			panic(err)
		}
		best := 0.0
		// Its own matrix, and Leopard over GF(2^8) where that is faster, which wide codes are.
		for _, leopard := range []bool{false, true} {
			if leopard && k < 32 {
				continue
			}
			coder, err := reedsolomon.New(k, m, reedsolomon.WithMaxGoroutines(1), reedsolomon.WithLeopardGF(leopard))
			if err != nil {
				panic(err)
			}
			seconds := measure(coder, what, k, m, cell, span, rounds, time.Duration(nanoseconds))
			if best == 0 || seconds < best {
				best = seconds
			}
		}
		fmt.Println(best)
	}
}

func measure(coder reedsolomon.Encoder, what string, k, m, cell, span, rounds int, round time.Duration) float64 {
	all := stripes(k+m, cell, span)
	turn := func(calls int) time.Duration {
		start := time.Now()
		for call := range calls {
			shards := all[call%len(all)]
			var err error
			if what == "encode" {
				err = coder.Encode(shards)
			} else {
				for i := range min(k, m) {
					shards[i] = shards[i][:0]
				}
				err = coder.ReconstructData(shards)
			}
			if err != nil {
				panic(err)
			}
		}
		return time.Since(start)
	}
	calls := len(all)
	for turn(calls) < round {
		calls *= 2
	}
	best := turn(calls)
	for range rounds - 1 {
		best = min(best, turn(calls))
	}
	return best.Seconds() / float64(calls)
}
