/* Two CPUs with store buffers (total store order, as on x86): a store is seen by its own CPU at once, by the other one when it
 * drains, later and in order. A full barrier waits until the buffer is empty. An atomic read-modify-write is one step on memory
 * that begins with an empty buffer.
 */
#define PRODUCER 0
#define CONSUMER 1

byte mem[WORDS];
byte view[2 * WORDS];     /* what a CPU last stored, while it waits in its buffer */
byte waiting[2 * WORDS];  /* how many such stores there are */
chan buffer0 = [3] of { byte, byte };
chan buffer1 = [3] of { byte, byte };

#define READ(cpu, word) (waiting[cpu * WORDS + word] > 0 -> view[cpu * WORDS + word] : mem[word])
#define STORE(cpu, buffer, word, value) \
    atomic { nfull(buffer) -> buffer!word, value; view[cpu * WORDS + word] = value; waiting[cpu * WORDS + word]++ }
#define MB(buffer) (empty(buffer))

active proctype drain0() {
    byte word, value;
end: do
    :: atomic { buffer0?word, value -> mem[word] = value; waiting[word]--; word = 0; value = 0 }
    od
}

active proctype drain1() {
    byte word, value;
end: do
    :: atomic { buffer1?word, value -> mem[word] = value; waiting[WORDS + word]--; word = 0; value = 0 }
    od
}
