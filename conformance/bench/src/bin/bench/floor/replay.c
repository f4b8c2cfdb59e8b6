/*
 * The floor: reads system calls from standard input, and makes them.
 *
 * It is the smallest static program (cc -static -nostdlib), so that its start takes as long as any start of a process must.
 * script.rs writes what it reads: the number of calls, the calls, and the bytes that they point to. It ends with status 1 and a message
 * when a call ends otherwise than the recorded one, since the hosts are not equal then.
 */
#define RESULT_IS_FILE 1 /* the result is a file descriptor, which gets the recorded number */
#define ANSWER 2         /* the answer of netlink must be of the same type, and the same error */
#define KEEP_OPEN 4      /* sends sockets to itself, so that the kernel closes them after the process */

struct call {
	long number;
	long kind;
	long in_script;  /* a bit for each argument that is an offset in the script */
	long in_scratch; /* a bit for each argument that is a buffer for the kernel */
	long argument[6];
	long result;
	long answer; /* the offset of the recorded answer */
};

struct socket_message {
	void *name;
	long name_size;
	void *parts;
	long number_of_parts;
	void *control;
	long control_size;
	long flags;
};

static char script[1 << 18] __attribute__((aligned(16)));
static char scratch[1 << 20];

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

#define READ 0
#define WRITE 1
#define CLOSE 3
#define DUP2 33
#define SENDMSG 46
#define SOCKETPAIR 53
#define EXIT 231

static void fail(long at)
{
	char text[] = "the recorded call       has another result here\n";

	for (int place = 22; at; place--, at /= 10)
		text[place] = '0' + at % 10;
	call(WRITE, 2, (long)text, sizeof(text) - 1, 0, 0, 0);
	call(EXIT, 1, 0, 0, 0, 0, 0);
}

/* What the plugins do with a socket of netfilter whose closing would wait: ARCHITECTURE.md, "The kernel". */
static long keep_open(long file)
{
	int pair[2];
	char byte = 0;
	struct {
		long size;
		int level, type, files[3], end;
	} control = { 16 + 12, 1, 1, { file }, 0 };
	struct {
		void *start;
		long size;
	} part = { &byte, 1 };
	struct socket_message message = { 0, 0, &part, 1, &control, sizeof(control), 0 };
	long result = call(SOCKETPAIR, 1, 2, 0, (long)pair, 0, 0);

	if (result)
		return result;
	control.files[1] = pair[0];
	control.files[2] = pair[1];
	result = call(SENDMSG, pair[0], (long)&message, 0, 0, 0, 0);
	call(CLOSE, pair[0], 0, 0, 0, 0, 0);
	call(CLOSE, pair[1], 0, 0, 0, 0, 0);
	return result;
}

static int is_equal_answer(const char *recorded)
{
	const unsigned short type = *(const unsigned short *)(scratch + 4);

	if (type != *(const unsigned short *)(recorded + 4))
		return 0;
	return type != 2 || *(const int *)(scratch + 16) == *(const int *)(recorded + 16);
}

static void replay(const struct call *recorded, long at)
{
	long argument[6], result;

	for (int i = 0; i < 6; i++) {
		argument[i] = recorded->argument[i];
		if (recorded->in_script & 1 << i)
			argument[i] += (long)script;
		if (recorded->in_scratch & 1 << i)
			argument[i] = (long)scratch;
	}
	if (recorded->kind & KEEP_OPEN)
		result = keep_open(argument[0]);
	else
		result = call(recorded->number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
	if ((result < 0 || recorded->result < 0) && result != recorded->result)
		fail(at);
	if (recorded->kind & ANSWER && !is_equal_answer(script + recorded->answer))
		fail(at);
	if (recorded->kind & RESULT_IS_FILE && result >= 0 && result != recorded->result) {
		call(DUP2, result, recorded->result, 0, 0, 0, 0);
		call(CLOSE, result, 0, 0, 0, 0, 0);
	}
}

__attribute__((noreturn, force_align_arg_pointer)) void _start(void)
{
	const struct call *calls = (const void *)(script + sizeof(long));
	long size = 0, got;

	while ((got = call(READ, 0, (long)script + size, sizeof(script) - size, 0, 0, 0)) > 0)
		size += got;
	for (long at = 0; at < *(const long *)script; at++)
		replay(calls + at, at);
	call(EXIT, 0, 0, 0, 0, 0, 0);
	__builtin_unreachable();
}
