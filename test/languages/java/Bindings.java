// SPDX-License-Identifier: BSD-3-Clause

import java.nio.ByteBuffer;

/**
 * A program that calls libucp from Java as bindings do: by JNI, with direct buffers, requests that keep a reference to
 * an object of Java, and callbacks that call its methods.
 */
public final class Bindings {
    /** One operation; native code calls {@link #done} from inside of progress. */
    static final class Operation {
        boolean ended;
        int status;
        long length;

        void done(int status, long length) {
            this.ended = true;
            this.status = status;
            this.length = length;
        }
    }

    private static byte[] header;
    private static ByteBuffer arrivedData;
    private static Operation arrival;

    static native long open();
    static native long worker(long context);
    static native long listen(long worker);
    static native long connect(long worker, long listener);
    static native long accepted(long worker);
    static native int progress(long worker);
    static native void tagReceive(long worker, ByteBuffer buffer, long tag, Operation operation);
    static native void tagSend(long ep, ByteBuffer buffer, long tag, Operation operation);
    static native void onMessage(long worker, int id);
    static native void messageSend(long ep, int id, byte[] header, ByteBuffer buffer, Operation operation);
    static native long map(long context, ByteBuffer buffer);
    static native byte[] key(long context, long memory);
    static native void get(long ep, byte[] key, long address, ByteBuffer buffer, Operation operation);
    static native long address(ByteBuffer buffer);
    static native void cancel(long worker, Operation operation);
    static native void end(long ep, Operation operation);
    static native void close(long context, long[] workers, long listener, long memory);

    /** Called by native code when an active message begins; what it answers receives the data. */
    static ByteBuffer arrived(byte[] itsHeader, long length, Operation operation) {
        header = itsHeader;
        arrival = operation;
        arrivedData = ByteBuffer.allocateDirect((int) length);
        return arrivedData;
    }

    private static void check(boolean condition, String what) {
        if (!condition) {
            System.out.println("FAILED: " + what);
            System.exit(1);
        }
    }

    private static void waitFor(Operation operation, int expected, String what, long... workers) {
        while (!operation.ended) {
            for (long worker : workers) {
                progress(worker);
            }
        }
        check(operation.status == expected, what + " ended with status " + operation.status);
    }

    private static ByteBuffer pattern(int length) {
        ByteBuffer buffer = ByteBuffer.allocateDirect(length);
        for (int i = 0; i < length; i++) {
            buffer.put(i, (byte) (i * 13 + i / 255));
        }
        return buffer;
    }

    public static void main(String[] arguments) {
        System.load(arguments[0]);
        long context = open();
        long client = worker(context);
        long server = worker(context);
        long listener = listen(server);
        long ep = connect(client, listener);
        long back = 0;
        while (back == 0) {
            progress(client);
            progress(server);
            back = accepted(server);
        }

        for (int length : new int[] {0, 8, 5000, 2000000}) {
            ByteBuffer room = ByteBuffer.allocateDirect(length);
            Operation received = new Operation();
            Operation sent = new Operation();
            tagReceive(server, room, 5, received);
            tagSend(ep, pattern(length), 5, sent);
            waitFor(sent, 0, "send of a tag message", client, server);
            waitFor(received, 0, "receive of a tag message", client, server);
            check(received.length == length, "a tag message has another length");
            check(room.equals(pattern(length)), "a tag message has other contents");
        }

        onMessage(server, 9);
        for (int length : new int[] {100, 3000000}) {
            Operation sent = new Operation();
            arrival = null;
            messageSend(ep, 9, "a header".getBytes(), pattern(length), sent);
            waitFor(sent, 0, "send of an active message", client, server);
            while (arrival == null) {
                progress(server);
            }
            waitFor(arrival, 0, "receive of an active message", client, server);
            check(new String(header).equals("a header"), "a header has other contents");
            check(arrivedData.equals(pattern(length)), "an active message has other contents");
        }

        ByteBuffer exposed = pattern(100000);
        ByteBuffer copy = ByteBuffer.allocateDirect(100000);
        long memory = map(context, exposed);
        Operation got = new Operation();
        get(ep, key(context, memory), address(exposed), copy, got);
        waitFor(got, 0, "get", client, server);
        check(copy.equals(exposed), "a get read other contents");

        Operation never = new Operation();
        tagReceive(client, ByteBuffer.allocateDirect(10), 77, never);
        cancel(client, never);
        waitFor(never, -16, "a cancelled receive", client);

        for (long one : new long[] {ep, back}) {
            Operation closed = new Operation();
            end(one, closed);
            waitFor(closed, 0, "close", client, server);
        }
        close(context, new long[] {client, server}, listener, memory);
        System.out.println("bindings from Java: passed");
    }
}
