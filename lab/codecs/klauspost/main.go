// Measures klauspost/reedsolomon on one core. Reads lines "k m lost cellBytes spanBytes none|lines|pages rounds nanoseconds"
// and answers each with the seconds for one stripe, the best of the rounds: to encode where none is lost, otherwise to decode
// that number of first ones. Buffers lie as in the measuring core in Rust: one allocation, and between them nothing, or lines or
// pages at irregular distances.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"github.com/klauspost/reedsolomon"
)

var memory []byte

const page = 4096

func stripes(shards, cell, span int, spacing string) [][][]byte {
	count := max(1, (span+shards*cell-1)/(shards*cell))
	pitch := func(i int) int {
		switch spacing {
		case "none":
			return (cell + 63) / 64 * 64
		case "lines":
			return (cell + i*37%min(max(cell/64, 1), 64)*64 + 63) / 64 * 64
		case "pages":
			return (cell + (1+i*37%16)*page + page - 1) / page * page
		}
		panic(spacing)
	}
	need := page
	for i := range count * shards {
		need += pitch(i)
	}
	for at := len(memory); at < need; at++ {
		memory = append(memory, byte(at*7+at>>8))
	}
	all := make([][][]byte, count)
	at := page - int(uintptr(unsafe.Pointer(&memory[0]))%page)
	for s := range all {
		all[s] = make([][]byte, shards)
		for i := range all[s] {
			all[s][i] = memory[at : at+cell : at+cell]
			at += pitch(s*shards + i)
		}
	}
	return all
}

func main() {
	runtime.GOMAXPROCS(1)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var spacing string
		var k, m, lost, cell, span, rounds, nanoseconds int
		if _, err := fmt.Sscan(lines.Text(), &k, &m, &lost, &cell, &span, &spacing, &rounds, &nanoseconds); err != nil {
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
			all := stripes(k+m, cell, span, spacing)
			seconds := measure(coder, all, lost, rounds, time.Duration(nanoseconds))
			if best == 0 || seconds < best {
				best = seconds
			}
		}
		fmt.Println(best)
	}
}

func measure(coder reedsolomon.Encoder, all [][][]byte, lost, rounds int, round time.Duration) float64 {
	turn := func(calls int) time.Duration {
		start := time.Now()
		for call := range calls {
			shards := all[call%len(all)]
			var err error
			if lost == 0 {
				err = coder.Encode(shards)
			} else {
				for i := range lost {
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
